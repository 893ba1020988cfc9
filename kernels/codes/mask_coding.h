// Entropy coding of masks, for format trans: which of the codes of a chunk are not zero, in nearly as few bits as the
// fraction of zeros allows.
#pragma once

#include <array>
#include <bit>
#include <cstdint>
#include <span>

#include "kernels/tensor/slice.h"

namespace terngrad {

/// Mask bytes of a chunk at most: bit i % 8 of byte i / 8 says whether code i is non-zero.
inline constexpr std::int64_t kMaxMaskBytes = kChunkElements / 8;

/// A chunk's fraction of zeros in 64ths, from which both sides know how often each mask byte is expected.
inline constexpr int kMinMaskLevel = 12;
inline constexpr int kMaxMaskLevel = 63;
/// Of masks that are not coded.
inline constexpr int kRawMasks = 0;

/// What the frequencies of the 256 mask bytes add up to.
inline constexpr int kMaskFrequencyBits = 12;
inline constexpr std::uint32_t kMaskFrequencySum = std::uint32_t{1} << kMaskFrequencyBits;

/// floor((64 z + m / 2) / m) of a chunk of m codes, z of them zero, cut to kMinMaskLevel .. kMaxMaskLevel.
/// @param count  m, at least 1
constexpr int mask_level(std::int64_t count, std::int64_t num_zeros) {
  const auto level = static_cast<int>((64 * num_zeros + count / 2) / count);
  return level < kMinMaskLevel ? kMinMaskLevel : level > kMaxMaskLevel ? kMaxMaskLevel : level;
}

/// Frequencies of mask bytes by their number j of ones: max(1, floor(L^(8-j) (64-L)^j / 2^36)), which is 4096 times the
/// probability of independent codes; that of byte 0 takes what is missing to 4096.
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

/// Division by a number from 1 to 4096 as a multiplication: floor(x / f) = x * reciprocal >> shift, for x below 2^31.
struct MaskReciprocal {
  std::uint32_t reciprocal;
  int shift;
};
/// The reciprocal is 2^shift / f rounded up, which is 2^31 to 2^32 - 1. It is too large by less than one, so that
/// x * reciprocal / 2^shift exceeds x / f by less than x / 2^shift, where 2^shift >= 2^31 f: by less than 1 / f.
constexpr MaskReciprocal mask_reciprocal(std::uint32_t f) {
  const int shift = 31 + static_cast<int>(std::bit_width(f - 1));
  return {static_cast<std::uint32_t>(((std::uint64_t{1} << shift) + f - 1) / f), shift};
}

/// Writes a byte L, a byte 0 and the masks of a chunk: of L = kRawMasks as they are, else as two states of 32 bits and
/// words of 16 (rANS: Duda, "Asymmetric numeral systems", 2013). L is kRawMasks unless coded masks are shorter.
/// Deterministic.
/// @param masks  [ceil(count / 8)], unused bits zero
/// @param count  codes of the chunk: 1 to kChunkElements
/// @param out    [2 + ceil(count / 8)] out. @returns bytes written
std::int64_t encode_masks(const std::uint8_t* masks, std::int64_t count, std::uint8_t* out);

/// Reads what encode_masks has written.
/// @param bytes  beginning with L; has passed check_masks. What follows the masks is not looked at
/// @param masks  [kMaxMaskBytes] out: ceil(count / 8) of them, filled up with zeros to a multiple of 4
/// @returns bytes read
std::int64_t decode_masks(std::span<const std::uint8_t> bytes, std::int64_t count, std::uint8_t* masks);

/// The same for bytes that can be anything. Reads nothing outside of them.
/// @throws CommunicationError saying what is wrong, where encode_masks does not write such bytes
std::int64_t check_masks(std::span<const std::uint8_t> bytes, std::int64_t count, std::uint8_t* masks);

}  // namespace terngrad
