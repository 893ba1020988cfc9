// Ternarization on a GPU: the GPU part of Ternarizer.
#pragma once

#include <memory>
#include <span>

#include "kernels/codes/ternarize.h"

namespace terngrad::cuda {

class TernarizeRunner {
 public:
  virtual ~TernarizeRunner() = default;
  /// @param type         element type of all tasks
  /// @param device_step  null, or the step in device memory, which replaces key.step
  virtual void run(std::span<const TernarizeTask> tasks, ElementType type, const TernarizeOptions& options,
                   const DrawKey& key, const std::uint64_t* device_step, std::span<std::int64_t> bytes,
                   Stream& stream) = 0;
};

std::shared_ptr<TernarizeRunner> make_ternarize_runner(const Device& device);

}  // namespace terngrad::cuda
