// Sums of codes in registers: 16 codes per thread, several packed into a word.
#pragma once

#include <cuda_runtime.h>

#include <cstdint>

#include "kernels/codes/code_sum.h"

namespace terngrad::cuda {

/// Number of payloads whose words are loaded before the first is used.
inline constexpr int kPayloadBatch = 8;

/// Codes are added as code + 2, which is the 2-bit code with its high bit flipped: 1, 2 or 3.
inline constexpr std::uint32_t kTurned = 0xaaaaaaaau;
inline constexpr unsigned kBias = 2;
/// Number of payloads whose sums fit a byte, and the same in whole batches; sums over kMaxSummedWorkers fit 16 bits.
inline constexpr int kBytePayloads = 255 / 3;
inline constexpr int kByteBatches = kBytePayloads / kPayloadBatch;
static_assert(3 * kMaxSummedWorkers <= 0xffff, "sums of pairs fit 16 bits");

/// Sums of a thread's 16 codes, all biased. Byte m of part j is for code 4m + j.
struct ByteSums {
  std::uint32_t part[4] = {0, 0, 0, 0};

  __device__ void add(const std::uint32_t (&words)[kPayloadBatch]) {
    // Sums of four codes fit a nibble: even codes and odd codes.
#pragma unroll
    for (int half = 0; half < kPayloadBatch; half += 4) {
      std::uint32_t even = 0;
      std::uint32_t odd = 0;
#pragma unroll
      for (int k = half; k < half + 4; ++k) {
        even += words[k] & 0x33333333u;
        odd += words[k] >> 2 & 0x33333333u;
      }
      part[0] += even & 0x0f0f0f0fu;
      part[1] += odd & 0x0f0f0f0fu;
      part[2] += even >> 4 & 0x0f0f0f0fu;
      part[3] += odd >> 4 & 0x0f0f0f0fu;
    }
  }

  /// Writes the thread's sums in order, one byte each.
  __device__ void stage(std::uint32_t* staged) const {
    const std::uint32_t low01 = (part[0] & 0x00ff00ffu) | (part[1] & 0x00ff00ffu) << 8;
    const std::uint32_t low23 = (part[2] & 0x00ff00ffu) | (part[3] & 0x00ff00ffu) << 8;
    const std::uint32_t high01 = (part[0] >> 8 & 0x00ff00ffu) | (part[1] & 0xff00ff00u);
    const std::uint32_t high23 = (part[2] >> 8 & 0x00ff00ffu) | (part[3] & 0xff00ff00u);
    reinterpret_cast<uint4*>(staged)[threadIdx.x] =
        make_uint4((low01 & 0xffffu) | low23 << 16, (high01 & 0xffffu) | high23 << 16,
                   low01 >> 16 | (low23 & 0xffff0000u), high01 >> 16 | (high23 & 0xffff0000u));
  }
};

/// Sums over many payloads: bytes, flushed to 16 bits before they overflow.
struct WideSums {
  ByteSums bytes;
  int batches = 0;                        // batches in `bytes`
  std::uint32_t outer[4] = {0, 0, 0, 0};  // element j: sums for codes j and j + 8
  std::uint32_t inner[4] = {0, 0, 0, 0};  // codes j + 4 and j + 12

  __device__ void add(const std::uint32_t (&words)[kPayloadBatch]) {
    bytes.add(words);
    if (++batches == kByteBatches) empty();
  }

  __device__ void empty() {
#pragma unroll
    for (int j = 0; j < 4; ++j) {
      outer[j] += bytes.part[j] & 0x00ff00ffu;
      inner[j] += bytes.part[j] >> 8 & 0x00ff00ffu;
      bytes.part[j] = 0;
    }
    batches = 0;
  }

  /// Writes the thread's sums in order, 16 bits each.
  __device__ void stage(std::uint32_t* staged) {
    empty();
    auto* rows = reinterpret_cast<uint4*>(staged) + 2 * threadIdx.x;
    rows[0] = make_uint4((outer[0] & 0xffffu) | outer[1] << 16, (outer[2] & 0xffffu) | outer[3] << 16,
                         (inner[0] & 0xffffu) | inner[1] << 16, (inner[2] & 0xffffu) | inner[3] << 16);
    rows[1] = make_uint4(outer[0] >> 16 | (outer[1] & 0xffff0000u), outer[2] >> 16 | (outer[3] & 0xffff0000u),
                         inner[0] >> 16 | (inner[1] & 0xffff0000u), inner[2] >> 16 | (inner[3] & 0xffff0000u));
  }
};

/// Reads four consecutive sums that `stage` has written.
template <bool kWide>
__device__ inline uint4 staged_group(const std::uint32_t* staged, unsigned group) {
  if constexpr (kWide) {
    const uint2 sums = reinterpret_cast<const uint2*>(staged)[group];
    return make_uint4(sums.x & 0xffffu, sums.x >> 16, sums.y & 0xffffu, sums.y >> 16);
  } else {
    const std::uint32_t sums = staged[group];
    return make_uint4(sums & 0xffu, sums >> 8 & 0xffu, sums >> 16 & 0xffu, sums >> 24);
  }
}

}  // namespace terngrad::cuda
