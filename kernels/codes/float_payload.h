// Float payloads: slices of gradients as float32 or bfloat16, many in one pass.
#pragma once

#include <cstdint>
#include <memory>
#include <span>

#include "kernels/runtime/device.h"
#include "kernels/tensor/element_type.h"

namespace terngrad {

/// Stored form of the elements.
enum class FloatPayload {
  kFloat32,
  kBfloat16,         // rounded to nearest, ties to even; zero-padded to a multiple of 4 bytes
  kRoundedBfloat16,  // float32 values, rounded to bfloat16
};

/// One slice to copy. Pointers are device memory on a GPU's stream.
struct FloatPayloadTask {
  const void* values = nullptr;  // [count], aligned to the element size
  std::int64_t count = 0;
  const float* flag = nullptr;               // null, or a scaler: NaN writes zeros instead
  void* payload = nullptr;                   // [count] out; may be `values` if both are float32
  ElementType type = ElementType::kFloat32;  // type of the values; they are widened to float32 first
};

namespace cuda {
class FloatPayloadRunner;
}

/// Copies slices step after step. On a GPU it caches the task table: a call with the same tasks as the previous one
/// neither allocates, copies from the host nor waits. Use each object with one stream only.
class FloatPacker {
 public:
  explicit FloatPacker(FloatPayload form, Device device = Device::cpu());

  /// Bit-equal on every backend.
  /// @throws InvalidArgument for a payload that is not 4-byte aligned, or another device's stream
  void run(std::span<const FloatPayloadTask> tasks, Stream& stream);

 private:
  FloatPayload form_;
  Device device_;
  std::shared_ptr<cuda::FloatPayloadRunner> cuda_;
};

}  // namespace terngrad
