// StreamTimer: how long work takes on its device.
#pragma once

#include <memory>

#include "kernels/runtime/device.h"

namespace terngrad {

/// Measures the time between two points of a stream: by events on a GPU, by the clock on the CPU. Starting and stopping
/// do not wait for the GPU.
class StreamTimer {
 public:
  explicit StreamTimer(const Device& device);
  void start(const Stream& stream);
  void stop(const Stream& stream);
  /// Seconds from start to stop; waits until the GPU has reached the latter. @throws DeviceError
  double seconds() const;

 private:
  Device device_;
  std::shared_ptr<void> begin_event_;
  std::shared_ptr<void> end_event_;
  double begin_ = 0;  // of the CPU's clock
  double end_ = 0;
};

}  // namespace terngrad
