// Float payloads: slices of gradients as float32 or bfloat16, many in one pass.
#pragma once

#include <cstdint>
#include <memory>
#include <span>

#include "kernels/runtime/device.h"
#include "kernels/tensor/element_type.h"

namespace terngrad {

enum class FloatPayload {
  kFloat32,
  kBfloat16,         // rounded to nearest, ties to even; filled up with zeros to a multiple of 4 bytes
  kRoundedBfloat16,  // float32 that holds what bfloat16 would
};

/// One slice to copy. Pointers are device memory on a GPU's stream.
struct FloatPayloadTask {
  const void* values = nullptr;  // [count], aligned to the elements' size
  std::int64_t count = 0;
  const float* flag = nullptr;               // null, or a scaler: where it is NaN, zeros are written instead
  void* payload = nullptr;                   // [count] out; may be `values` where both are float32
  ElementType type = ElementType::kFloat32;  // the values' type; they count as widened to float32
};

namespace cuda {
class FloatPayloadRunner;
}

/// Copies slices, step after step. On a GPU it keeps the table of tasks there: a call with the tasks of the last one
/// allocates and copies nothing from the host, and the host does not wait. Serves one stream.
class FloatPacker {
 public:
  explicit FloatPacker(FloatPayload form, Device device = Device::cpu());

  /// @throws InvalidArgument for a payload that is not 4-byte aligned, or another device's stream
  /// Bit-equal on every backend.
  void run(std::span<const FloatPayloadTask> tasks, Stream& stream);

 private:
  FloatPayload form_;
  Device device_;
  std::shared_ptr<cuda::FloatPayloadRunner> cuda_;
};

}  // namespace terngrad
