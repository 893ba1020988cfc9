// Long messages are sent in pieces: MPI counts bytes in int, and each piece that arrives shows that the peer is alive.
#pragma once

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <span>

namespace terngrad {

inline constexpr std::size_t kMaxPieceBytes = std::size_t{1} << 30;

/// True if received numbers are plausible for a message in pieces.
constexpr bool is_sound_message(std::uint64_t bytes, std::uint64_t piece_bytes) {
  return bytes >> 48 == 0 && piece_bytes >= 1 && piece_bytes <= kMaxPieceBytes;
}

/// True if parcels of these sizes, each padded to a multiple of 8 bytes, have `bytes` bytes in total.
constexpr bool are_sizes_of(std::uint64_t bytes, std::span<const std::uint64_t> sizes) {
  if (bytes >> 48 != 0) return false;
  for (const std::uint64_t size : sizes) {
    // The first comparison excludes overflow in the second.
    if (size > bytes || (size + 7) / 8 * 8 > bytes) return false;
    bytes -= (size + 7) / 8 * 8;
  }
  return bytes == 0;
}

/// Calls visit(piece) for the pieces of a message in order; all but the last have piece_bytes. An empty message has
/// none.
template <class Byte, class Visit>
void for_each_piece(std::span<Byte> message, std::size_t piece_bytes, const Visit& visit) {
  for (std::size_t begin = 0; begin < message.size(); begin += piece_bytes) {
    visit(message.subspan(begin, std::min(piece_bytes, message.size() - begin)));
  }
}

}  // namespace terngrad
