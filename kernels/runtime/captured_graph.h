// CapturedGraph: work recorded once from a GPU's stream and replayed many times.
#pragma once

#include <functional>
#include <memory>

#include "kernels/runtime/device.h"

namespace terngrad {

/// A CUDA graph captured from a stream. One call launches all its kernels, which makes a step of many small kernels
/// several times faster.
class CapturedGraph {
 public:
  /// Records the work that `submit` submits to `stream`, without running it. `submit` must have run once before with
  /// the same arguments, so that tables and workspace are allocated. It must neither synchronize with the GPU nor read
  /// from it.
  /// @throws NotSupported on the CPU, DeviceError if the work cannot be captured, and any exception of `submit`; the
  /// stream remains usable
  CapturedGraph(Stream& stream, const std::function<void()>& submit);

  /// Submits the recorded work to `stream`, which may be any stream of the same device. All memory that the work uses
  /// must still be allocated.
  void launch(Stream& stream) const;

 private:
  std::shared_ptr<void> executable_;
};

/// True if work submitted to the stream is being captured instead of run. False on the CPU.
bool is_capturing(const Stream& stream);

}  // namespace terngrad
