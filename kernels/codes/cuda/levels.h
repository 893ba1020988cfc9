// Uniform levels on a GPU: the GPU part of LevelQuantizer.
#pragma once

#include <memory>
#include <span>

#include "kernels/codes/levels.h"

namespace terngrad::cuda {

class LevelsRunner {
 public:
  virtual ~LevelsRunner() = default;
  /// @param type         element type of all tasks
  /// @param device_step  null, or the step in device memory, which replaces key.step
  virtual void run(std::span<const QuantizeTask> tasks, ElementType type, const LevelOptions& options,
                   const DrawKey& key, const std::uint64_t* device_step, Stream& stream) = 0;
};

std::shared_ptr<LevelsRunner> make_levels_runner(const Device& device);

}  // namespace terngrad::cuda
