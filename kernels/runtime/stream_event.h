// StreamEvent: a point in a stream that other streams and the host can wait for.
#pragma once

#include <memory>

#include "kernels/runtime/device.h"

namespace terngrad {

/// Marks the end of the work that a stream had been given at the last `record`. Complete if never recorded, and always
/// complete on the CPU, where streams run work immediately.
class StreamEvent {
 public:
  /// @throws DeviceError
  explicit StreamEvent(const Device& device);

  /// @param stream  a stream of the same device
  void record(const Stream& stream);
  /// Work submitted to `stream` from now on runs after the recorded point. Asynchronous.
  void hold_back(const Stream& stream) const;
  /// True if the recorded point has been reached; does not wait. @throws DeviceError for an earlier failure on the
  /// device
  bool has_come() const;
  /// Blocks the host until the recorded point has been reached. @throws DeviceError as has_come
  void wait() const;

 private:
  std::shared_ptr<void> event_;  // null on the CPU
};

}  // namespace terngrad
