// Entropy coding of the nonzero masks of chunks, for format trans: close to the entropy at the chunk's fraction of
// zeros.
#pragma once

#include <array>
#include <bit>
#include <cstdint>
#include <span>

#include "kernels/tensor/slice.h"

namespace terngrad {

/// Maximum number of mask bytes per chunk. Bit i % 8 of byte i / 8 is set if code i is nonzero.
inline constexpr std::int64_t kMaxMaskBytes = kChunkElements / 8;

/// Range of L, the fraction of zeros of a chunk in 64ths, from which both sides derive the frequencies of mask bytes.
inline constexpr int kMinMaskLevel = 12;
inline constexpr int kMaxMaskLevel = 63;
/// Value of L for uncoded masks.
inline constexpr int kRawMasks = 0;

/// Sum of the frequencies of the 256 mask bytes, as a power of two.
inline constexpr int kMaskFrequencyBits = 12;
inline constexpr std::uint32_t kMaskFrequencySum = std::uint32_t{1} << kMaskFrequencyBits;

/// floor((64 z + m / 2) / m) for a chunk of m codes with z zeros, clamped to [kMinMaskLevel, kMaxMaskLevel].
/// @param count  m, at least 1
constexpr int mask_level(std::int64_t count, std::int64_t num_zeros) {
  const auto level = static_cast<int>((64 * num_zeros + count / 2) / count);
  return level < kMinMaskLevel ? kMinMaskLevel : level > kMaxMaskLevel ? kMaxMaskLevel : level;
}

/// Frequencies of mask bytes by their number j of ones: max(1, floor(L^(8-j) (64-L)^j / 2^36)), which is 4096 times the
/// probability if codes are independent; byte 0 gets the remainder of 4096.
/// @param level  L, kMinMaskLevel to kMaxMaskLevel
constexpr std::array<std::uint32_t, 9> mask_frequencies(int level) {
  constexpr std::array<std::uint32_t, 9> kBytesWithOnes = {1, 8, 28, 56, 70, 56, 28, 8, 1};
  std::array<std::uint32_t, 9> frequencies{};
  std::uint32_t rest = kMaskFrequencySum;
  for (unsigned ones = 8; ones > 0; --ones) {
    std::uint64_t product = 1;
    for (unsigned bit = 0; bit < 8; ++bit) product *= static_cast<unsigned>(bit < ones ? 64 - level : level);
    frequencies[ones] = product >> 36 == 0 ? 1 : static_cast<std::uint32_t>(product >> 36);
    rest -= kBytesWithOnes[ones] * frequencies[ones];
  }
  frequencies[0] = rest;
  return frequencies;
}

/// Division by f in [1, 4096] as a multiplication: floor(x / f) = x * reciprocal >> shift, for x below 2^31.
struct MaskReciprocal {
  std::uint32_t reciprocal;
  int shift;
};
/// The reciprocal is 2^shift / f rounded up, in [2^31, 2^32 - 1]. It is too large by less than one, so x * reciprocal /
/// 2^shift exceeds x / f by less than x / 2^shift, which is less than 1 / f because 2^shift >= 2^31 f.
constexpr MaskReciprocal mask_reciprocal(std::uint32_t f) {
  const int shift = 31 + static_cast<int>(std::bit_width(f - 1));
  return {static_cast<std::uint32_t>(((std::uint64_t{1} << shift) + f - 1) / f), shift};
}

/// Writes a byte L, a byte 0 and the masks of a chunk: uncoded if L = kRawMasks, else as two 32-bit states and 16-bit
/// words (rANS: Duda, "Asymmetric numeral systems", 2013). L is kRawMasks unless coding makes them shorter.
/// Deterministic.
/// @param masks  [ceil(count / 8)], unused bits zero
/// @param count  codes of the chunk: 1 to kChunkElements
/// @param out    [2 + ceil(count / 8)] out
/// @returns the number of bytes written
std::int64_t encode_masks(const std::uint8_t* masks, std::int64_t count, std::uint8_t* out);

/// Decodes the output of encode_masks.
/// @param bytes  begins with L; must have passed check_masks. Bytes after the masks are ignored
/// @param masks  [kMaxMaskBytes] out: ceil(count / 8) of them, zero-padded to a multiple of 4
/// @returns the number of bytes read
std::int64_t decode_masks(std::span<const std::uint8_t> bytes, std::int64_t count, std::uint8_t* masks);

/// The same for arbitrary bytes, without reading out of bounds.
/// @throws CommunicationError with the reason if encode_masks cannot have written them
std::int64_t check_masks(std::span<const std::uint8_t> bytes, std::int64_t count, std::uint8_t* masks);

}  // namespace terngrad
