// What becomes of factors between the products of a step: how they begin, how they travel, and what is kept of them.
#pragma once

#include <cstdint>
#include <memory>
#include <span>

#include "kernels/runtime/device.h"
#include "kernels/runtime/device_step.h"
#include "kernels/tensor/bfloat16.h"
#include "kernels/tensor/element_type.h"

namespace terngrad {

/// A factor with which a step begins. Device memory on a GPU's stream, like that of the other tasks.
struct FactorBegin {
  const float* kept = nullptr;  // Q^T [rank][columns] of the step before; null: all columns are drawn
  float* q = nullptr;           // Q^T [rank][columns] out
  int rank = 0;
  std::int64_t columns = 0;
  std::int64_t draw_offset = 0;  // of its tensor
};

/// A factor that is about to travel.
struct FactorRounding {
  float* values = nullptr;  // [count]
  std::int64_t count = 0;
  ElementType type = ElementType::kFloat32;  // or kBfloat16: as which it travels
  float* flag = nullptr;                     // [1] NaN: its tensor is not finite

  /// The bits of the smallest magnitude that is not finite as it travels.
  constexpr std::uint32_t first_infinite() const {
    return type == ElementType::kFloat32 ? 0x7f800000u : kFirstInfiniteBfloat16;
  }
};

/// A factor that the next step begins with.
struct FactorMemoryTask {
  const float* from = nullptr;  // [count]
  float* to = nullptr;          // [count] out
  std::int64_t count = 0;
};

namespace cuda {
class FactorStepRunner;
}

/// Bit-equal on every backend and for any number of threads. May be captured as LowRankProducts; serves one stream. All
/// throw InvalidArgument for another device's stream.
class FactorSteps {
 public:
  explicit FactorSteps(Device device = Device::cpu());

  /// Columns of Q as they were kept, times a power of two that brings their largest magnitude to [1, 2); those that are
  /// zeros, and all where nothing is kept, are drawn (kernels/factors/factor_draws.h) with `seed` and the step.
  void begin(std::span<const FactorBegin> tasks, std::uint64_t seed, const DeviceStep& step, Stream& stream);

  /// Whether a tensor's first factor is finite as it travels: writes flags, NaN or 0, then rounds factors.
  void round_first(std::span<const FactorRounding> tasks, Stream& stream);
  /// Of its second factor: zeros where the flag is NaN already; else it becomes NaN where that one is not finite. Then
  /// rounds factors.
  void round_second(std::span<const FactorRounding> tasks, Stream& stream);

  /// Rounds factors; flags are not looked at.
  void round_mean(std::span<const FactorRounding> tasks, Stream& stream);

  /// @param skip  [1] in the tasks' memory, or null: not 0, and nothing is kept
  void update_memory(std::span<const FactorMemoryTask> tasks, const std::uint32_t* skip, Stream& stream);

 private:
  void require(const Stream& stream) const;

  Device device_;
  std::shared_ptr<cuda::FactorStepRunner> cuda_;
};

}  // namespace terngrad
