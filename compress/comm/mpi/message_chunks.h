// Long messages travel in pieces: MPI counts bytes in int, and each piece that comes is a sign of life.
#pragma once

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <span>

namespace terngrad {

inline constexpr std::size_t kMaxPieceBytes = std::size_t{1} << 30;

/// Whether numbers that came from elsewhere can be those of a message in pieces.
constexpr bool is_sound_message(std::uint64_t bytes, std::uint64_t piece_bytes) {
  return bytes >> 48 == 0 && piece_bytes >= 1 && piece_bytes <= kMaxPieceBytes;
}

/// Whether parcels of these sizes, each filled up to a multiple of 8 bytes, make up a message of that many bytes.
constexpr bool are_sizes_of(std::uint64_t bytes, std::span<const std::uint64_t> sizes) {
  if (bytes >> 48 != 0) return false;
  for (const std::uint64_t size : sizes) {
    // What is compared first cannot wrap.
    if (size > bytes || (size + 7) / 8 * 8 > bytes) return false;
    bytes -= (size + 7) / 8 * 8;
  }
  return bytes == 0;
}

/// Calls visit(piece) for the pieces of a message in order, all of piece_bytes but the last. There is none of no bytes.
template <class Byte, class Visit>
void for_each_piece(std::span<Byte> message, std::size_t piece_bytes, const Visit& visit) {
  for (std::size_t begin = 0; begin < message.size(); begin += piece_bytes) {
    visit(message.subspan(begin, std::min(piece_bytes, message.size() - begin)));
  }
}

}  // namespace terngrad
