// Xxhash64: the checksum of checkpoints.
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <span>
#include <string_view>

namespace terngrad {

/// Incremental XXH64 of the xxHash library, seed 0: a fast 64-bit checksum against accidental damage, not a
/// cryptographic hash. The division of the input into `add` calls does not matter.
class Xxhash64 {
 public:
  Xxhash64();
  ~Xxhash64();
  Xxhash64& add(std::span<const std::byte> bytes);
  Xxhash64& add(std::string_view text) { return add(std::as_bytes(std::span(text.data(), text.size()))); }
  /// Adds eight bytes, little-endian.
  Xxhash64& add(std::uint64_t value) { return add(std::as_bytes(std::span(&value, 1))); }
  /// The hash of all bytes so far; more may be added afterwards.
  std::uint64_t value() const;

 private:
  struct State;  // hides the library's header from this one, which is installed
  std::unique_ptr<State> state_;
};

}  // namespace terngrad
