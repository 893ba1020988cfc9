// The arithmetic of ternarizing one chunk on a GPU: draws, comparison, t2 words. The definition is in
// kernels/codes/ternarize.h.
#pragma once

#include <cuda_runtime.h>

#include <cstdint>

#include "kernels/codes/cuda/draws.cuh"
#include "kernels/codes/ternarize.h"
#include "kernels/statistics/scaler_limits.h"
#include "kernels/tensor/cuda/elements.cuh"
#include "kernels/tensor/cuda/reduce.cuh"
#include "kernels/tensor/slice.h"

namespace terngrad::cuda {

/// Threads that ternarize a chunk together: 16 elements each, as two runs of 8, for which one Philox block has the
/// bits.
inline constexpr unsigned kTernarizeThreads = 256;
inline constexpr int kRunElements = 8;
inline constexpr unsigned kChunkWords = static_cast<unsigned>(kChunkElements / 16);
static_assert(kTernarizeThreads * 2 * kRunElements == kChunkElements, "a block covers a chunk");
static_assert(kTernarizeThreads == kChunkWords, "a thread makes one t2 word");

/// TernarizeTask as kernels read it.
struct TernarizeJob {
  const void* gradient;  // of the element type that the kernel is instantiated with
  const float* scalers;
  const float* clips;
  std::uint8_t* payload;
  std::int64_t first;
  std::int64_t count;
  std::int64_t draw_offset;
  std::int64_t block_elements;
  std::uint64_t worker;
};

/// A group of chunks of a job, and where its first element is among the blocks that share a scaler: the host divides
/// 64-bit numbers, kernels need not.
struct TernarizeTile {
  std::int32_t job;
  std::int32_t group;
  std::int64_t first_scaler;  // index of the first element's scaler
  std::int64_t into_block;    // the first element's position in its block
};

/// Which of a job's scalers an element has. @param offset  from the tile's first element
__device__ inline std::int64_t scaler_index(const TernarizeJob& job, const TernarizeTile& tile, unsigned offset) {
  if (job.block_elements == 0) return 0;
  const std::int64_t at = tile.into_block + offset;
  if (job.block_elements > 0x7fffffff) return tile.first_scaler + (at >= job.block_elements ? 1 : 0);
  return tile.first_scaler + static_cast<unsigned>(at) / static_cast<unsigned>(job.block_elements);
}

/// Whether element `g`, whose draw ties with its level or which is at full scale, is non-zero.
__device__ inline bool resolve_tie(float g, float scaler, float clip, std::uint32_t refinement) {
  const float magnitude = fminf(fabsf(g), clip);
  if (magnitude >= scaler) return true;
  const float t = magnitude * __fdiv_rn(1.0f, scaler) * 65536.0f;
  if (t >= 65536.0f) return true;  // rounding brought it up to full scale: above every draw
  return static_cast<float>(refinement) < (t - floorf(t)) * 0x1p24f;
}

/// Takes the 8 elements of a run, zeros beyond the end.
__device__ inline void load_run(const float* __restrict__ values, std::int64_t count, float (&g)[kRunElements]) {
  if (count >= kRunElements && is_vector_aligned(values)) {
    const auto* vectors = reinterpret_cast<const float4*>(values);
    const float4 low = __ldg(vectors);
    const float4 high = __ldg(vectors + 1);
    g[0] = low.x, g[1] = low.y, g[2] = low.z, g[3] = low.w;
    g[4] = high.x, g[5] = high.y, g[6] = high.z, g[7] = high.w;
    return;
  }
#pragma unroll
  for (int i = 0; i < kRunElements; ++i) g[i] = i < count ? values[i] : 0.0f;
}

/// The same of elements of 16 bits.
template <class Element>
__device__ void load_run(const Element* __restrict__ values, std::int64_t count, float (&g)[kRunElements]) {
  static_assert(kRunElements * sizeof(Element) == kVectorBytes, "a run is one vector");
  if (count >= kRunElements && is_vector_aligned(values)) {
    const uint4 vector = __ldg(reinterpret_cast<const uint4*>(values));
    const std::uint32_t words[kRunElements / 2] = {vector.x, vector.y, vector.z, vector.w};
#pragma unroll
    for (int i = 0; i < kRunElements / 2; ++i) {
      const float2 pair = widened_pair<Element>(words[i]);
      g[2 * i] = pair.x;
      g[2 * i + 1] = pair.y;
    }
    return;
  }
#pragma unroll
  for (int i = 0; i < kRunElements; ++i) g[i] = i < count ? widened(values[i]) : 0.0f;
}

/// The codes of a run of 8 elements as 16 bits of t2. @param draw_index  of the first, a multiple of 8
template <class Element>
__device__ std::uint32_t ternarize_run(const TernarizeJob& job, std::int64_t at, std::int64_t count,
                                       const float (&g)[kRunElements], std::int64_t scaler_index,
                                       const DrawStream& stream, std::uint64_t step, std::uint32_t refine_purpose) {
  const float scaler = job.scalers[scaler_index];
  if (!(scaler >= kMinScaler)) return 0;  // too small, or NaN
  const float clip = job.clips == nullptr ? __uint_as_float(0x7f800000u) : job.clips[scaler_index];
  // Magnitudes are cut at s as well as at the clip: from s on all codes are +-1. One multiplication serves for m * inv
  // * 65536: the two differ only where the first underflows, and then in what a tie decides.
  const float limit = fminf(scaler, clip);
  const float factor = __fdiv_rn(1.0f, scaler) * 65536.0f;
  const auto draw_index = static_cast<std::uint64_t>(job.draw_offset + job.first + at);
  const auto worker = static_cast<std::uint32_t>(job.worker);
  const uint4 draws = draw_block(stream, step, worker, stream.purpose, draw_index / kRunElements);
  const std::uint32_t words[4] = {draws.x, draws.y, draws.z, draws.w};
  std::uint32_t codes = 0;
  std::uint32_t ties = 0;
#pragma unroll
  for (int i = 0; i < kRunElements; ++i) {
    // 2^23 + level rounded towards zero has floor(level) in its low bits; the draw gets the same high bits.
    const float level = fminf(fabsf(g[i]), limit) * factor;
    const std::uint32_t floored = __float_as_uint(__fadd_rz(level, 0x1p23f));
    const std::uint32_t draw = __byte_perm(words[i / 2], 0x4b000000u, i % 2 == 0 ? 0x7610 : 0x7632);
    const std::uint32_t sign = __float_as_uint(g[i]) >> 31;
    if (draw < floored) codes |= (1u | sign << 1) << (2 * i);
    if (draw == floored) ties |= 1u << i;
  }
  // One element in 65536 and all zeros that draw 0: read again, since registers have no index.
  while (ties != 0) {
    const int i = __ffs(static_cast<int>(ties)) - 1;
    ties &= ties - 1;
    if (i >= count) break;
    const float value = widened(static_cast<const Element*>(job.gradient)[at + i]);
    const std::uint32_t refinement =
        draw32(stream, step, worker, refine_purpose, draw_index + static_cast<std::uint64_t>(i)) >> 8;
    if (resolve_tie(value, scaler, clip, refinement)) {
      codes |= (1u | __float_as_uint(value) >> 31 << 1) << (2 * i);
    }
  }
  return codes;
}

/// The calling thread's t2 word of a chunk, and its index there. Unused codes are zero.
struct ThreadWord {
  unsigned index;
  std::uint32_t word;
};

/// Ternarizes `count` elements, at most a chunk, from `done` after the tile's first element on. Whole blocks of
/// kTernarizeThreads must call it. @param tile_begin  the tile's first element, counted from the job's
template <class Element>
__device__ ThreadWord ternarize_chunk(const TernarizeJob& job, const TernarizeTile& tile, std::int64_t tile_begin,
                                      unsigned done, std::int64_t count, const DrawStream& stream,
                                      std::uint32_t refine_purpose) {
  constexpr unsigned kSecond = kTernarizeThreads * kRunElements;  // where the threads' second runs begin
  const unsigned offset = threadIdx.x * kRunElements;
  const std::int64_t begin = tile_begin + done;
  const Element* values = static_cast<const Element*>(job.gradient) + begin;
  float low[kRunElements];
  float high[kRunElements];
  load_run(values + offset, count - offset, low);
  load_run(values + kSecond + offset, count - kSecond - offset, high);
  const std::uint64_t step = step_of(stream);
  std::uint32_t low_codes = 0;
  std::uint32_t high_codes = 0;
  if (offset < count) {
    low_codes = ternarize_run<Element>(job, begin + offset, count - offset, low, scaler_index(job, tile, done + offset),
                                       stream, step, refine_purpose);
  }
  if (kSecond + offset < count) {
    high_codes = ternarize_run<Element>(job, begin + kSecond + offset, count - kSecond - offset, high,
                                        scaler_index(job, tile, done + kSecond + offset), stream, step, refine_purpose);
  }
  // A word is made of the runs of two neighbours: the even thread takes the pair of first runs, the odd the second.
  const bool odd = threadIdx.x % 2 == 1;
  const std::uint32_t taken = __shfl_xor_sync(kAllLanes, odd ? low_codes : high_codes, 1);
  return odd ? ThreadWord{kChunkWords / 2 + threadIdx.x / 2, taken | high_codes << 16}
             : ThreadWord{threadIdx.x / 2, low_codes | taken << 16};
}

}  // namespace terngrad::cuda
