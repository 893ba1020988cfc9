// Libraries: handles of cuDNN and cuBLASLt for one stream.
#pragma once

#include <cstdint>
#include <memory>
#include <string>

#include "kernels/runtime/device.h"

namespace terngrad::cuda {

/// Default alignment of operands in bytes, that of the widest access. Operands inside a buffer may have less, which
/// makes libraries use narrower accesses.
inline constexpr int kFullAlignment = 16;

/// Alignment of consecutive slices of `elements` float32 numbers in an aligned buffer.
constexpr int slice_alignment(std::int64_t elements) {
  return elements % 4 == 0 ? kFullAlignment : elements % 2 == 0 ? 8 : 4;
}

/// Library handles bound to a stream, shared by the products and convolutions of one net. Copies share the handles. Not
/// thread-safe.
class Libraries {
 public:
  /// @throws InvalidArgument if the stream is not a GPU's; NotSupported if a library cannot be loaded; DeviceError if
  /// one cannot be used with the GPU
  explicit Libraries(const Stream& stream);
  const Stream& stream() const { return stream_; }
  /// The reason why a library cannot be loaded on this machine; empty if all can.
  static std::string why_missing();
  /// Human-readable names and versions. @throws NotSupported if a library cannot be loaded
  static std::string versions();
  /// The same without loading cuBLASLt, whose required major version is given.
  static std::string versions_of_build();
  struct Handles;
  Handles& handles() const { return *handles_; }

 private:
  Stream stream_;
  std::shared_ptr<Handles> handles_;
};

}  // namespace terngrad::cuda
