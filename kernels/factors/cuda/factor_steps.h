// Factor steps on a GPU: the GPU part of FactorSteps.
#pragma once

#include <cstdint>
#include <memory>
#include <span>

#include "kernels/factors/factor_steps.h"
#include "kernels/random/philox.h"

namespace terngrad::cuda {

/// Selects FactorSteps::round_first, round_second or round_mean.
enum class FactorRound : std::uint8_t { kFirst, kSecond, kMean };

class FactorStepRunner {
 public:
  virtual ~FactorStepRunner() = default;
  /// @param device_step  null, or the step in device memory, which replaces key.step
  virtual void begin(std::span<const FactorBegin> tasks, const DrawKey& key, const std::uint64_t* device_step,
                     Stream& stream) = 0;
  virtual void round(std::span<const FactorRounding> tasks, FactorRound which, Stream& stream) = 0;
  virtual void update_memory(std::span<const FactorMemoryTask> tasks, const std::uint32_t* skip, Stream& stream) = 0;
};

std::shared_ptr<FactorStepRunner> make_factor_step_runner(const Device& device);

}  // namespace terngrad::cuda
