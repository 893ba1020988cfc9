// Conversion of values to 64-bit words, which lanes exchange.
#pragma once

#include <cstdint>
#include <cstring>
#include <type_traits>

namespace simt {

/// The bytes of a value, zero-extended.
template <class T>
std::uint64_t to_bits(T value) {
  static_assert(std::is_trivially_copyable_v<T> && sizeof(T) <= 8, "intrinsics move plain values of up to 8 bytes");
  std::uint64_t bits = 0;
  std::memcpy(&bits, &value, sizeof(value));
  return bits;
}

template <class T>
T from_bits(std::uint64_t bits) {
  static_assert(std::is_trivially_copyable_v<T> && sizeof(T) <= 8, "intrinsics move plain values of up to 8 bytes");
  T value;
  std::memcpy(&value, &bits, sizeof(value));
  return value;
}

}  // namespace simt
