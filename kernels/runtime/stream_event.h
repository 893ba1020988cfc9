// StreamEvent: a point in the order of a stream that other streams and the host wait for.
#pragma once

#include <memory>

#include "kernels/runtime/device.h"

namespace terngrad {

/// The end of what a stream had been given when `record` was called last; one that was never recorded has come. On the
/// CPU, where streams run at once, every point has come.
class StreamEvent {
 public:
  /// @throws DeviceError
  explicit StreamEvent(const Device& device);

  /// @param stream  of the same device
  void record(const Stream& stream);
  /// What `stream` is given from now on runs after the point that was recorded last; the host does not wait.
  void hold_back(const Stream& stream) const;
  /// Whether the point has come, without waiting. @throws DeviceError for an earlier failure on the device
  bool has_come() const;
  /// Returns once it has. @throws DeviceError as has_come
  void wait() const;

 private:
  std::shared_ptr<void> event_;  // null on the CPU
};

}  // namespace terngrad
