// Libraries: the handles of cuDNN and cuBLASLt for one stream.
#pragma once

#include <cstdint>
#include <memory>
#include <string>

#include "kernels/runtime/device.h"

namespace terngrad::cuda {

/// The bytes of which addresses of operands are a multiple unless said otherwise: those of the widest access. Operands
/// that begin in the midst of a buffer may have less, and then a library takes narrower accesses.
inline constexpr int kFullAlignment = 16;

/// The alignment of slices of `elements` float32 numbers that follow each other in an aligned buffer.
constexpr int slice_alignment(std::int64_t elements) {
  return elements % 4 == 0 ? kFullAlignment : elements % 2 == 0 ? 8 : 4;
}

/// What products and convolutions of one net share: library handles bound to a stream. Copies are the same handles,
/// which one thread at a time may use.
class Libraries {
 public:
  /// @throws InvalidArgument if the stream is none of a GPU; NotSupported if a library cannot be
  /// loaded; DeviceError if one cannot be used with the GPU
  explicit Libraries(const Stream& stream);
  const Stream& stream() const { return stream_; }
  /// Why a library cannot be loaded on this machine; empty if all can.
  static std::string why_missing();
  /// For people. @throws NotSupported if a library cannot be loaded
  static std::string versions();
  /// The same without loading what is loaded by name: of that, the major version that is asked for.
  static std::string versions_of_build();
  struct Handles;
  Handles& handles() const { return *handles_; }

 private:
  Stream stream_;
  std::shared_ptr<Handles> handles_;
};

}  // namespace terngrad::cuda
