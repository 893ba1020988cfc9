// DeviceStep: training step number, given by the host or read by kernels.
#pragma once

#include <cstdint>

namespace terngrad {

/// Step number in the keys of random draws. With `on_device` kernels read it from memory, so that work captured into a
/// CUDA graph uses a new step on each replay.
struct DeviceStep {
  std::uint64_t step = 0;
  const std::uint64_t* on_device = nullptr;  // null, or [1] in device memory; replaces `step`
};

}  // namespace terngrad
