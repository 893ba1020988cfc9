// Ternarization of one chunk on a GPU: draws, comparison, t2 words. Defined in kernels/codes/ternarize.h.
#pragma once

#include <cuda_runtime.h>

#include <cstdint>

#include "kernels/codes/cuda/draws.cuh"
#include "kernels/codes/cuda/encode_tiles.cuh"
#include "kernels/codes/ternarize.h"
#include "kernels/statistics/scaler_limits.h"
#include "kernels/tensor/cuda/elements.cuh"
#include "kernels/tensor/cuda/reduce.cuh"
#include "kernels/tensor/slice.h"

namespace terngrad::cuda {

/// Threads that ternarize a chunk together.
inline constexpr unsigned kTernarizeThreads = kEncodeThreads;
inline constexpr unsigned kChunkWords = static_cast<unsigned>(kChunkElements / 16);
static_assert(kTernarizeThreads == kChunkWords, "a thread makes one t2 word");

/// TernarizeTask in the form for kernels.
struct TernarizeJob {
  const void* gradient;  // elements of the kernel's element type
  const float* scalers;
  const float* clips;
  std::uint8_t* payload;
  std::int64_t first;
  std::int64_t count;
  std::int64_t draw_offset;
  std::int64_t block_elements;
  TaskDraws draws;
};

/// Rounding and levels; see TernarizeOptions.
struct TernarizeMode {
  bool is_nearest = false;
  bool is_asymmetric = false;
  bool is_stratified = false;

  bool is_default() const { return !is_nearest && !is_asymmetric && !is_stratified; }
};

/// Returns true if element `g`, which ties with its draw or is at full scale, is nonzero.
__device__ inline bool resolve_tie(float g, float scaler, float clip, std::uint32_t refinement) {
  const float magnitude = fminf(fabsf(g), clip);
  if (magnitude >= scaler) return true;
  const float t = magnitude * __fdiv_rn(1.0f, scaler) * 65536.0f;
  if (t >= 65536.0f) return true;  // rounded up to full scale: above every draw
  return static_cast<float>(refinement) < (t - floorf(t)) * 0x1p24f;
}

/// Codes of a run of 8 elements as 16 bits of t2.
template <class Element>
__device__ std::uint32_t ternarize_run(const TernarizeJob& job, std::int64_t at, std::int64_t count,
                                       const float (&g)[kRunElements], std::int64_t scaler_index,
                                       const DrawStream& stream, std::uint64_t step, std::uint32_t refine_purpose) {
  const float scaler = job.scalers[scaler_index];
  if (!(scaler >= kMinScaler)) return 0;  // too small or NaN
  const float clip = job.clips == nullptr ? __uint_as_float(0x7f800000u) : job.clips[scaler_index];
  // Clamps magnitudes at s as well as at the clip: from s on all codes are +-1. A single multiplication replaces m *
  // inv * 65536: results differ only if the former underflows, and then only in the resolution of ties.
  const float limit = fminf(scaler, clip);
  const float factor = __fdiv_rn(1.0f, scaler) * 65536.0f;
  const auto draw_index = static_cast<std::uint64_t>(job.draw_offset + job.first + at);
  const std::uint32_t worker = job.draws.worker;
  const uint4 draws = draw_block(stream, step, worker, stream.purpose, draw_index / kRunElements);
  const std::uint32_t words[4] = {draws.x, draws.y, draws.z, draws.w};
  std::uint32_t codes = 0;
  std::uint32_t ties = 0;
#pragma unroll
  for (int i = 0; i < kRunElements; ++i) {
    // 2^23 + level, rounded toward zero, has floor(level) in its low bits; the draw gets the same high bits.
    const float level = fminf(fabsf(g[i]), limit) * factor;
    const std::uint32_t floored = __float_as_uint(__fadd_rz(level, 0x1p23f));
    const std::uint32_t draw = __byte_perm(words[i / 2], 0x4b000000u, i % 2 == 0 ? 0x7610 : 0x7632);
    const std::uint32_t sign = __float_as_uint(g[i]) >> 31;
    if (draw < floored) codes |= (1u | sign << 1) << (2 * i);
    if (draw == floored) ties |= 1u << i;
  }
  // About one element in 65536 ties, and each zero that draws 0. Elements are read again, since registers cannot be
  // indexed.
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

/// ternarize_run for all modes.
template <class Element>
__device__ std::uint32_t ternarize_sides(const TernarizeJob& job, std::int64_t at, std::int64_t count,
                                         const float (&g)[kRunElements], std::int64_t scaler_index,
                                         const DrawStream& stream, std::uint64_t step, std::uint32_t refine_purpose,
                                         TernarizeMode mode) {
  const float infinity = __uint_as_float(0x7f800000u);
  const auto scaler_of = [&](bool is_negative) {
    return job.scalers[mode.is_asymmetric ? 2 * scaler_index + (is_negative ? 1 : 0) : scaler_index];
  };
  const auto clip_of = [&](bool is_negative) {
    if (job.clips == nullptr) return infinity;
    return job.clips[mode.is_asymmetric ? 2 * scaler_index + (is_negative ? 1 : 0) : scaler_index];
  };
  const auto is_negative = [](float value) { return __float_as_uint(value) >> 31 != 0; };
  std::uint32_t codes = 0;
  // If a side's scaler is too small or NaN, all its codes are 0.
  if (mode.is_nearest) {
    const auto threshold_of = [&](bool negative) {
      const float scaler = scaler_of(negative);
      return scaler >= kMinScaler && clip_of(negative) + clip_of(negative) >= scaler ? scaler : -1.0f;
    };
    const float positive = threshold_of(false);
    const float negative = threshold_of(true);
#pragma unroll
    for (int i = 0; i < kRunElements; ++i) {
      // A clip has no effect if it is high enough: fl(2 min(|g|, clip)) >= s if both fl(2 |g|) >= s and fl(2 clip) >=
      // s.
      const float threshold = is_negative(g[i]) ? negative : positive;
      if (threshold > 0 && fabsf(g[i]) + fabsf(g[i]) >= threshold) {
        codes |= (1u | __float_as_uint(g[i]) >> 31 << 1) << (2 * i);
      }
    }
    return codes;
  }
  const auto factor_of = [&](bool negative) {
    const float scaler = scaler_of(negative);
    return scaler >= kMinScaler ? __fdiv_rn(1.0f, scaler) * 65536.0f : 0.0f;
  };
  const float positive_factor = factor_of(false);
  const float negative_factor = factor_of(true);
  const float positive_limit = fminf(scaler_of(false), clip_of(false));
  const float negative_limit = fminf(scaler_of(true), clip_of(true));
  const auto draw_index = static_cast<std::uint64_t>(job.draw_offset + job.first + at);
  const std::uint32_t worker = job.draws.worker;
  uint4 draws = draw_block(stream, step, worker, stream.purpose, draw_index / kRunElements);
  if (mode.is_stratified) draws = draws_of(job.draws.stratum, draws);
  const std::uint32_t words[4] = {draws.x, draws.y, draws.z, draws.w};
  std::uint32_t ties = 0;
#pragma unroll
  for (int i = 0; i < kRunElements; ++i) {
    const bool negative = is_negative(g[i]);
    const float magnitude = fminf(fabsf(g[i]), negative ? negative_limit : positive_limit);
    const float level = magnitude * (negative ? negative_factor : positive_factor);
    const std::uint32_t floored = __float_as_uint(__fadd_rz(level, 0x1p23f));
    std::uint32_t draw = __byte_perm(words[i / 2], 0x4b000000u, i % 2 == 0 ? 0x7610 : 0x7632);
    if (mode.is_stratified && negative) draw ^= 0xffffu;
    if (draw < floored) codes |= (1u | (negative ? 2u : 0u)) << (2 * i);
    if (draw == floored) ties |= 1u << i;
  }
  for (; ties != 0; ties &= ties - 1) {
    const int i = __ffs(static_cast<int>(ties)) - 1;
    if (i >= count) break;
    const float value = widened(static_cast<const Element*>(job.gradient)[at + i]);
    const float scaler = scaler_of(is_negative(value));
    if (!(scaler >= kMinScaler)) continue;
    std::uint32_t refinement =
        draw32(stream, step, worker, refine_purpose, draw_index + static_cast<std::uint64_t>(i)) >> 8;
    if (mode.is_stratified) refinement = job.draws.stratum.refinement(refinement, is_negative(value) ? 1 : 0);
    if (resolve_tie(value, scaler, clip_of(is_negative(value)), refinement)) {
      codes |= (1u | __float_as_uint(value) >> 31 << 1) << (2 * i);
    }
  }
  return codes;
}

/// The calling thread's t2 word and its index in the chunk. Unused codes are zero.
struct ThreadWord {
  unsigned index;
  std::uint32_t word;
};

/// Ternarizes `count` elements, at most a chunk, that begin `done` elements into the tile. All threads of a block of
/// kTernarizeThreads must call it.
/// @param tile_begin  offset of the tile in the job
/// @param mode  used if kHasModes; else the default applies
template <class Element, bool kHasModes = false>
__device__ ThreadWord ternarize_chunk(const TernarizeJob& job, const EncodeTile& tile, std::int64_t tile_begin,
                                      unsigned done, std::int64_t count, const DrawStream& stream,
                                      std::uint32_t refine_purpose, TernarizeMode mode = {}) {
  constexpr unsigned kSecond = kTernarizeThreads * kRunElements;  // offset of the threads' second runs
  const unsigned offset = threadIdx.x * kRunElements;
  const std::int64_t begin = tile_begin + done;
  const Element* values = static_cast<const Element*>(job.gradient) + begin;
  const std::uint64_t step = step_of(stream);
  std::uint32_t low_codes = 0;
  std::uint32_t high_codes = 0;
  if constexpr (kHasModes) {
    // One run after another: both at once would need too many registers.
#pragma unroll 1
    for (unsigned from = offset; from < count; from += kSecond) {
      float g[kRunElements];
      load_run(values + from, count - from, g);
      const std::uint32_t codes = ternarize_sides<Element>(job, begin + from, count - from, g,
                                                           scaler_index(job.block_elements, tile, done + from), stream,
                                                           step, refine_purpose, mode);
      (from == offset ? low_codes : high_codes) = codes;
    }
  } else {
    float low[kRunElements];
    float high[kRunElements];
    load_run(values + offset, count - offset, low);
    load_run(values + kSecond + offset, count - kSecond - offset, high);
    if (offset < count) {
      low_codes =
          ternarize_run<Element>(job, begin + offset, count - offset, low,
                                 scaler_index(job.block_elements, tile, done + offset), stream, step, refine_purpose);
    }
    if (kSecond + offset < count) {
      high_codes = ternarize_run<Element>(job, begin + kSecond + offset, count - kSecond - offset, high,
                                          scaler_index(job.block_elements, tile, done + kSecond + offset), stream, step,
                                          refine_purpose);
    }
  }
  // A word combines the runs of two neighboring threads: the even thread takes the first runs, the odd one the second
  // runs.
  const bool odd = threadIdx.x % 2 == 1;
  const std::uint32_t taken = __shfl_xor_sync(kAllLanes, odd ? low_codes : high_codes, 1);
  return odd ? ThreadWord{kChunkWords / 2 + threadIdx.x / 2, taken | high_codes << 16}
             : ThreadWord{threadIdx.x / 2, low_codes | taken << 16};
}

}  // namespace terngrad::cuda
