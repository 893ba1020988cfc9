// Libraries: the handles of cuDNN and cuBLASLt for one stream.
#pragma once

#include <memory>

#include "kernels/device.h"

namespace terngrad::cuda {

/// What products and convolutions of one net share: library handles bound to a stream. Copies are the same handles,
/// which one thread at a time may use.
class Libraries {
 public:
  /// @throws InvalidArgument if the stream is none of a GPU; DeviceError if a library cannot be used with the GPU
  explicit Libraries(const Stream& stream);
  const Stream& stream() const { return stream_; }
  struct Handles;
  Handles& handles() const { return *handles_; }

 private:
  Stream stream_;
  std::shared_ptr<Handles> handles_;
};

}  // namespace terngrad::cuda
