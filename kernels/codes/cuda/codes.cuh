// Reads packed ternary codes in kernels: t2, t5 and tmask as t2 words of 16 codes, and lanes.
#pragma once

#include <cuda_runtime.h>

#include <cstdint>

#include "kernels/codes/ternary.h"
#include "kernels/tensor/cuda/reduce.cuh"
#include "kernels/tensor/slice.h"

namespace terngrad::cuda {

inline constexpr unsigned kCodesPerWord = 16;
inline constexpr unsigned kChunkWords = static_cast<unsigned>(kChunkElements) / kCodesPerWord;
/// Number of codes that a warp reads at once from a tmask payload: 32 per lane.
inline constexpr unsigned kWarpCodes = 32 * kWarpThreads;
inline constexpr unsigned kChunkWarpCodes = static_cast<unsigned>(kChunkElements) / kWarpCodes;

/// Bits [shift, shift + 32) of the 64-bit number `high`, `low`; shift < 32.
__device__ inline std::uint32_t window(std::uint32_t low, std::uint32_t high, unsigned shift) {
  return static_cast<std::uint32_t>((std::uint64_t{high} << 32 | low) >> shift);
}

/// Code `place` (0 to 3) of the four in the low byte of `four`; each pair of bits is a code in two's complement.
__device__ inline int code_at(std::uint32_t four, unsigned place) {
  return static_cast<std::int32_t>(four << (30 - 2 * place)) >> 30;
}

/// Four codes from `first` on, in the low bits, from a payload with 1, 2, 3, 4 or 8 bits per code. @param first  a
/// multiple of 4
template <unsigned kBits>
__device__ inline std::uint32_t four_codes(const void* payload, std::int64_t first) {
  if constexpr (kBits == 1) {
    return __ldg(static_cast<const std::uint8_t*>(payload) + first / 8) >> (first % 8) & 15u;
  } else if constexpr (kBits == 2) {
    return __ldg(static_cast<const std::uint8_t*>(payload) + first / 4);
  } else if constexpr (kBits == 3) {
    const auto* bytes = static_cast<const std::uint8_t*>(payload) + 3 * first / 8;
    return (__ldg(bytes) | std::uint32_t{__ldg(bytes + 1)} << 8) >> (3 * first % 8);
  } else if constexpr (kBits == 4) {
    return __ldg(static_cast<const std::uint16_t*>(payload) + first / 4);
  } else {
    static_assert(kBits == 8, "four codes are 4, 16 or 32 bits");
    return __ldg(static_cast<const std::uint32_t*>(payload) + first / 4);
  }
}

/// Code `place` of four q4 or q8 codes, with the bias L subtracted.
template <unsigned kBits>
__device__ inline int level_at(std::uint32_t four, unsigned place) {
  constexpr std::uint32_t kMask = (1u << kBits) - 1;
  return static_cast<int>(four >> (kBits * place) & kMask) - static_cast<int>(kMask / 2);
}

/// Location of 16 codes in a t5 payload. They always lie within four bytes (five codes each), thus in one or two
/// aligned words.
struct T5Place {
  std::int64_t word;
  unsigned shift;  // bits of the word before the first byte
  unsigned digit;  // index of the first code in the first byte
  bool is_split;   // spans two words, and the payload has the second

  /// @param first_code  a multiple of 16 below num_codes
  __device__ T5Place(std::int64_t first_code, std::int64_t num_codes) {
    const std::int64_t byte = first_code / 5;
    word = byte / 4;
    shift = static_cast<unsigned>(byte % 4) * 8;
    digit = static_cast<unsigned>(first_code - 5 * byte);
    is_split = shift != 0 && 4 * (word + 1) < (num_codes + 4) / 5;
  }
};

/// Extracts the digits of two t5 bytes, which are 16 bits apart, to two bits each. With q_i = floor(x / 3^i) the digits
/// of x are d_i = q_i - 3 q_{i+1}, so the sum of d_i 4^i is x + q_1 + 4 q_2 + 16 q_3 + 64 q_4. The quotients are exact
/// below 256.
__device__ inline std::uint32_t t5_digits(std::uint32_t bytes) {
  const std::uint32_t q1 = bytes * 171 >> 9 & 0x007f007fu;
  const std::uint32_t q2 = bytes * 57 >> 9 & 0x001f001fu;
  const std::uint32_t q3 = bytes * 19 >> 9 & 0x000f000fu;
  const std::uint32_t q4 = bytes * 203 >> 14 & 0x00030003u;
  return bytes + q1 + 4 * q2 + 16 * q3 + 64 * q4;
}

/// Converts the 16 codes at `place` to a t2 word; missing codes are unspecified.
/// @param low   word at the place
/// @param high  next word; ignored unless the place is split
__device__ inline std::uint32_t t5_as_t2(std::uint32_t low, std::uint32_t high, const T5Place& place) {
  const std::uint32_t bytes = window(low, high, place.shift);
  const std::uint32_t even = t5_digits(bytes & 0x00ff00ffu);
  const std::uint32_t odd = t5_digits(bytes >> 8 & 0x00ff00ffu);
  const std::uint32_t first_ten = (even & 0x3ffu) | (odd & 0x3ffu) << 10;
  const std::uint32_t last_ten = even >> 16 | odd >> 16 << 10;
  const std::uint32_t digits = window(first_ten | last_ten << 20, last_ten >> 12, 2 * place.digit);
  return (digits + 0x55555555u) ^ 0xaaaaaaaau;  // digit = code + 1
}

/// Moves bit i of the low 16 to bit 2i.
__device__ inline std::uint32_t spread(std::uint32_t bits) {
  bits = (bits | bits << 8) & 0x00ff00ffu;
  bits = (bits | bits << 4) & 0x0f0f0f0fu;
  bits = (bits | bits << 2) & 0x33333333u;
  return (bits | bits << 1) & 0x55555555u;
}

/// Deposits the low bits of `bits` at the set bits of `mask`, in order (pdep).
__device__ inline std::uint32_t scattered(std::uint32_t bits, std::uint32_t mask) {
#pragma unroll
  for (unsigned place = 0; place < 32; ++place) {
    // At a clear mask bit, shift all bits from there on up by one.
    if ((mask >> place & 1u) == 0) bits += bits & ~0u << place;
  }
  return bits & mask;
}

/// The parts of a tmask payload of `num_codes` codes.
struct TMaskView {
  const std::uint32_t* offsets;
  const std::uint32_t* masks;
  const std::uint32_t* signs;
  std::int64_t num_masks;

  __device__ TMaskView(const std::uint32_t* payload, std::int64_t num_codes) {
    offsets = payload;
    masks = payload + (num_codes + kChunkElements - 1) / kChunkElements + 1;
    num_masks = (num_codes + 31) / 32;
    signs = masks + num_masks;
  }

  /// Mask word `word`; zero past the end.
  __device__ std::uint32_t mask(std::int64_t word) const { return word < num_masks ? __ldg(masks + word) : 0; }

  /// Converts the 32 codes of this lane's mask to two t2 words. The whole warp must call it with consecutive masks.
  /// @param sign  index of the first lane's first sign bit
  __device__ uint2 warp_words(std::uint32_t mask, std::uint64_t sign) const {
    const unsigned lane = threadIdx.x % kWarpThreads;
    const auto own = static_cast<unsigned>(__popc(mask));
    unsigned sum = own;  // inclusive prefix sum over the warp
#pragma unroll
    for (unsigned distance = 1; distance < kWarpThreads; distance *= 2) {
      const unsigned before = __shfl_up_sync(kAllLanes, sum, distance);
      if (lane >= distance) sum += before;
    }
    std::uint32_t negative = 0;
    if (mask != 0) {
      sign += sum - own;
      const std::uint32_t* word = signs + sign / 32;
      const auto shift = static_cast<unsigned>(sign % 32);
      const std::uint32_t low = __ldg(word);
      const std::uint32_t high = shift + own > 32 ? __ldg(word + 1) : 0;
      negative = scattered(window(low, high, shift), mask);
    }
    return make_uint2(spread(mask & 0xffffu) | spread(negative & 0xffffu) << 1,
                      spread(mask >> 16) | spread(negative >> 16) << 1);
  }

  /// Reads codes [kWarpCodes * part, kWarpCodes * (part + 1)) of a chunk, 32 per lane. The whole warp must call it.
  __device__ uint2 part_of_chunk(std::int64_t chunk, unsigned part) const {
    const std::int64_t first = chunk * (kChunkElements / 32) + threadIdx.x % kWarpThreads;
    unsigned before = 0;
    for (unsigned earlier = 0; earlier < part; ++earlier) {
      before += static_cast<unsigned>(__popc(mask(first + earlier * kWarpThreads)));
    }
    before = warp_sum(before);
    return warp_words(mask(first + part * kWarpThreads), std::uint64_t{8} * __ldg(offsets + chunk) + before);
  }
};

/// Reads groups of four consecutive lanes of a chunk, with 32-bit arithmetic. Four lanes span at most two words, even
/// with three or two lanes per word, since with two a group begins at a word boundary.
struct LaneReader {
  std::int64_t first_word;  // first word of the chunk
  std::int64_t num_words;
  unsigned first_lane;
  unsigned bits;
  unsigned per_word;
  unsigned reciprocal;  // ceil(2^20 / per_word): quotients of positions up to 4096 + 31 are exact

  /// @param num_codes  total of the payload
  __device__ LaneReader(std::int64_t num_codes, std::int64_t chunk, int lane_bits) {
    bits = static_cast<unsigned>(lane_bits);
    per_word = 64 / bits;
    const auto begin = static_cast<std::uint64_t>(chunk * kChunkElements);
    first_word = static_cast<std::int64_t>(begin / per_word);
    first_lane = static_cast<unsigned>(begin - static_cast<std::uint64_t>(first_word) * per_word);
    num_words = (num_codes + per_word - 1) / per_word;
    reciprocal = ((1u << 20) + per_word - 1) / per_word;
  }

  /// values[j] += lane element + j of the chunk, for j < 4. Lanes past the payload's last word count as 0.
  __device__ void add_group(const std::uint64_t* words, unsigned element, int (&values)[4]) const {
    const unsigned position = first_lane + element;
    const unsigned quotient = position * reciprocal >> 20;
    const std::int64_t word = first_word + quotient;
    const unsigned lane = position - quotient * per_word;
    const std::uint64_t low = __ldg(words + word);
    const std::uint64_t high = lane + 4 > per_word && word + 1 < num_words ? __ldg(words + word + 1) : 0;
    const std::uint32_t mask = (1u << bits) - 1;
#pragma unroll
    for (unsigned j = 0; j < 4; ++j) {
      const bool is_low = lane + j < per_word;
      const std::uint64_t holder = is_low ? low : high;
      const unsigned at = is_low ? lane + j : lane + j - per_word;
      values[j] += static_cast<int>(static_cast<std::uint32_t>(holder >> (at * bits)) & mask);
    }
  }
};

}  // namespace terngrad::cuda
