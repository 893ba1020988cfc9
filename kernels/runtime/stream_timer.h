// StreamTimer: measures the duration of work on a device.
#pragma once

#include <memory>

#include "kernels/runtime/device.h"

namespace terngrad {

/// Measures the time between two points of a stream: with events on a GPU, with the clock on the CPU. start and stop
/// are asynchronous on a GPU.
class StreamTimer {
 public:
  explicit StreamTimer(const Device& device);
  void start(const Stream& stream);
  void stop(const Stream& stream);
  /// Seconds from start to stop; waits until the GPU has reached the stop. @throws DeviceError
  double seconds() const;

 private:
  Device device_;
  std::shared_ptr<void> begin_event_;
  std::shared_ptr<void> end_event_;
  double begin_ = 0;  // CPU clock
  double end_ = 0;
};

}  // namespace terngrad
