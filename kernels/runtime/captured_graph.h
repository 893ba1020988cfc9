// CapturedGraph: work of a GPU's stream, recorded once and launched many times.
#pragma once

#include <functional>
#include <memory>

#include "kernels/runtime/device.h"

namespace terngrad {

/// A CUDA graph captured from a stream: all its kernels start with one call of the host, which makes a step of many
/// small kernels several times faster.
class CapturedGraph {
 public:
  /// Records the work that `submit` gives to `stream`, without running it. `submit` must have been run once before with
  /// the same arguments, so that tables and workspace are in place; it must not wait for the GPU nor read from it.
  /// @throws NotSupported on the CPU, DeviceError where the work cannot be captured, and whatever `submit` throws; the
  /// stream can be used again then
  CapturedGraph(Stream& stream, const std::function<void()>& submit);

  /// Runs the recorded work in the order of `stream`, which may be another one of the same device. The memory that the
  /// work uses must still be there.
  void launch(Stream& stream) const;

 private:
  std::shared_ptr<void> executable_;
};

/// Whether what the stream is given now is recorded and not run. False on the CPU.
bool is_capturing(const Stream& stream);

}  // namespace terngrad
