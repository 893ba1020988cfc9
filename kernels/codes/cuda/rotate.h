// Rotation on a GPU: the GPU part of Rotator.
#pragma once

#include <memory>
#include <span>

#include "kernels/codes/rotate.h"

namespace terngrad::cuda {

class RotateRunner {
 public:
  virtual ~RotateRunner() = default;
  /// @param type         element type of all tasks
  /// @param key          complete key of the draws
  /// @param device_step  null, or the step in device memory, which replaces key.step
  virtual void run(std::span<const RotateTask> tasks, ElementType type, Rotation rotation, const DrawKey& key,
                   const std::uint64_t* device_step, Stream& stream) = 0;
};

std::shared_ptr<RotateRunner> make_rotate_runner(std::int64_t run_elements, const Device& device);

}  // namespace terngrad::cuda
