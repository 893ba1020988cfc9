// Xxhash64: the checksum of checkpoints.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <span>
#include <string_view>

namespace terngrad {

/// Incremental XXH64 (Yann Collet, "xxHash fast digest algorithm", specification 0.1.1), seed 0: a 64-bit checksum
/// against accidental damage at memory speed, with implementations in every language. Not a cryptographic hash. How
/// the input is cut into `add` calls does not matter. Bitwise equal on every little-endian machine.
class Xxhash64 {
 public:
  Xxhash64();
  Xxhash64& add(std::span<const std::byte> bytes);
  Xxhash64& add(std::string_view text) { return add(std::as_bytes(std::span(text.data(), text.size()))); }
  /// Eight bytes, little-endian.
  Xxhash64& add(std::uint64_t value);
  /// The hash of all bytes so far; more may be added afterwards.
  std::uint64_t value() const;

 private:
  static constexpr std::size_t kStripeBytes = 32;
  void consume_stripes(const std::byte* data, std::size_t num_stripes);

  std::array<std::uint64_t, 4> lanes_;
  std::array<std::byte, kStripeBytes> pending_;
  std::size_t num_pending_ = 0;
  std::uint64_t num_bytes_ = 0;
};

}  // namespace terngrad
