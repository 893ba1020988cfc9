// Steps on low-rank factors between the matrix products: initialization, rounding for transport, and memory (PowerSGD).
#pragma once

#include <cstdint>
#include <memory>
#include <span>

#include "kernels/runtime/device.h"
#include "kernels/runtime/device_step.h"
#include "kernels/tensor/bfloat16.h"
#include "kernels/tensor/element_type.h"

namespace terngrad {

/// Initial factor of a step. Pointers are device memory on a GPU's stream, as in the other tasks.
struct FactorBegin {
  const float* kept = nullptr;  // Q^T [rank][columns] of the previous step; null: all columns are drawn
  float* q = nullptr;           // Q^T [rank][columns] out
  int rank = 0;
  std::int64_t columns = 0;
  std::int64_t draw_offset = 0;  // draw offset of the tensor
};

/// A factor to round before it is sent.
struct FactorRounding {
  float* values = nullptr;  // [count]
  std::int64_t count = 0;
  ElementType type = ElementType::kFloat32;  // kFloat32 or kBfloat16, the type on the wire
  float* flag = nullptr;                     // [1] NaN if the tensor is not finite

  /// Bit pattern of the smallest magnitude that is not finite in `type`.
  constexpr std::uint32_t first_infinite() const {
    return type == ElementType::kFloat32 ? 0x7f800000u : kFirstInfiniteBfloat16;
  }
};

/// A factor to keep for the next step.
struct FactorMemoryTask {
  const float* from = nullptr;  // [count]
  float* to = nullptr;          // [count] out
  std::int64_t count = 0;
};

namespace cuda {
class FactorStepRunner;
}

/// All functions are bit-equal on every backend and for any number of threads, and throw InvalidArgument for another
/// device's stream. They can be captured like those of LowRankProducts. Use each object with one stream only.
class FactorSteps {
 public:
  explicit FactorSteps(Device device = Device::cpu());

  /// Computes the initial Q: kept columns times a power of two that brings their largest magnitude to [1, 2). Columns
  /// of zeros, and all columns if none are kept, are drawn (kernels/factors/factor_draws.h) with `seed` and the step.
  void begin(std::span<const FactorBegin> tasks, std::uint64_t seed, const DeviceStep& step, Stream& stream);

  /// First factor of each tensor: sets the flag to NaN if the factor is not finite in the wire type, else to 0; then
  /// rounds.
  void round_first(std::span<const FactorRounding> tasks, Stream& stream);
  /// Second factor of each tensor: zeros if the flag is already NaN. Otherwise sets the flag like round_first and
  /// rounds.
  void round_second(std::span<const FactorRounding> tasks, Stream& stream);

  /// Rounds factors without using the flags.
  void round_mean(std::span<const FactorRounding> tasks, Stream& stream);

  /// Copies factors for the next step.
  /// @param skip  null, or [1] in the tasks' memory: nonzero keeps nothing
  void update_memory(std::span<const FactorMemoryTask> tasks, const std::uint32_t* skip, Stream& stream);

 private:
  void require(const Stream& stream) const;

  Device device_;
  std::shared_ptr<cuda::FactorStepRunner> cuda_;
};

}  // namespace terngrad
