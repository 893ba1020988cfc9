// DeviceStep: the number of a training step, told by the host or read by kernels.
#pragma once

#include <cstdint>

namespace terngrad {

/// The step by which draws are keyed: on the device if `on_device` is set, so that work which was captured into a CUDA
/// graph takes the next step with each replay.
struct DeviceStep {
  std::uint64_t step = 0;
  const std::uint64_t* on_device = nullptr;  // null, or [1] in device memory, in place of `step`
};

}  // namespace terngrad
