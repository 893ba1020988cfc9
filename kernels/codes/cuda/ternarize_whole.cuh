// Ternarization of whole chunks with a single scaler, the most common case: fewer instructions per element and more
// loads in flight than the general version (ternarize_chunk.cuh). The codes are the same.
#pragma once

#include <cuda_runtime.h>

#include <cstdint>

#include "kernels/codes/cuda/ternarize_chunk.cuh"
#include "kernels/runtime/cuda/launch.cuh"

namespace terngrad::cuda {

/// Number of chunks that a block ternarizes together.
inline constexpr int kWholeChunks = 2;
inline constexpr std::int64_t kWholeElements = kWholeChunks * kChunkElements;

/// kWholeChunks chunks of a task, with addresses resolved by the host.
struct WholeTile {
  const void* values;    // aligned to 16 bytes
  std::uint32_t* words;  // t2 output
  const float* scaler;
  const float* clip;         // null: no clipping
  std::uint64_t draw_block;  // Philox block of the first run
  TaskDraws draws;
};

/// The tiles of the workers who share draws: `count` of them, `stride` apart.
struct StrataTiles {
  std::int64_t first;
  std::int32_t stride;
  std::int32_t count;
};

/// An element's bits, in the low bits of a word.
__device__ inline std::uint32_t element_bits(float value) { return __float_as_uint(value); }
template <class Element>
__device__ std::uint32_t element_bits(Element value) {
  return value.bits;
}

/// Raw bits of a run of 8 elements, in memory order.
template <class Element>
struct RawRun {
  uint4 vectors[kRunElements * sizeof(Element) / sizeof(uint4)];

  __device__ void load(const Element* values) {
#pragma unroll
    for (unsigned i = 0; i < sizeof(vectors) / sizeof(uint4); ++i) {
      vectors[i] = __ldg(reinterpret_cast<const uint4*>(values) + i);
    }
  }
  /// The same for `count` elements at any address; zeros behind them.
  __device__ void load_ragged(const Element* values, std::int64_t count) {
    constexpr int kOfWord = sizeof(std::uint32_t) / sizeof(Element);
    constexpr int kOfVector = kVectorBytes / sizeof(Element);
    const auto word = [&](int first) {
      std::uint32_t bits = 0;
#pragma unroll
      for (int i = 0; i < kOfWord; ++i) {
        if (first + i < count) bits |= element_bits(values[first + i]) << (i * 8 * static_cast<int>(sizeof(Element)));
      }
      return bits;
    };
#pragma unroll
    for (int i = 0; i < kRunElements / kOfVector; ++i) {
      const int first = i * kOfVector;
      vectors[i] = {word(first), word(first + kOfWord), word(first + 2 * kOfWord), word(first + 3 * kOfWord)};
    }
  }
  __device__ void store(Element* staged) const {
#pragma unroll
    for (unsigned i = 0; i < sizeof(vectors) / sizeof(uint4); ++i) reinterpret_cast<uint4*>(staged)[i] = vectors[i];
  }
  __device__ void widen(float (&g)[kRunElements]) const {
    if constexpr (sizeof(Element) == sizeof(float)) {
#pragma unroll
      for (int i = 0; i < 2; ++i) {
        g[4 * i] = __uint_as_float(vectors[i].x), g[4 * i + 1] = __uint_as_float(vectors[i].y);
        g[4 * i + 2] = __uint_as_float(vectors[i].z), g[4 * i + 3] = __uint_as_float(vectors[i].w);
      }
    } else {
      const std::uint32_t words[] = {vectors[0].x, vectors[0].y, vectors[0].z, vectors[0].w};
#pragma unroll
      for (int i = 0; i < kRunElements / 2; ++i) {
        const float2 pair = widened_pair<Element>(words[i]);
        g[2 * i] = pair.x;
        g[2 * i + 1] = pair.y;
      }
    }
  }
};

/// Bits of 2^23, the high half of draws and the effect of adding 2^23 to a level: see ternarize_run. A kernel
/// parameter, because with a constant the compiler would copy __byte_perm's selectors for every element.
inline constexpr std::uint32_t kDrawHigh = 0x4b000000u;

/// Draws of a worker that shares them with nobody.
struct OwnDraws {
  /// Draw i of a run, from its word, with `high` as the high half.
  __device__ static std::uint32_t draw(std::uint32_t word, int i, float /*g*/, std::uint32_t high) {
    return __byte_perm(word, high, i % 2 == 0 ? 0x7610 : 0x7632);
  }
  __device__ static std::uint32_t refinement(std::uint32_t bits, float /*g*/) { return bits; }
};

/// Draws of a stratum, from those that all workers share.
struct StratumDraws {
  std::uint32_t offset;
  std::uint32_t mirrored;  // Stratum::mirrored as the sign bit

  __device__ explicit StratumDraws(const Stratum& stratum) : offset(stratum.offset), mirrored(stratum.mirrored << 31) {}

  /// All bits set for 1 - u in place of u.
  __device__ std::uint32_t flips(float g) const {
    return static_cast<std::uint32_t>(static_cast<std::int32_t>(__float_as_uint(g) ^ mirrored) >> 31);
  }
  __device__ std::uint32_t draw(std::uint32_t word, int i, float g, std::uint32_t high) const {
    return OwnDraws::draw(word + (i % 2 == 0 ? offset : offset << 16), i, g, high) ^ (flips(g) & 0xffffu);
  }
  __device__ std::uint32_t refinement(std::uint32_t bits, float g) const { return bits ^ (flips(g) & 0xffffffu); }
};

/// draw - floor(level), each of 16 bits: negative for a nonzero code, 0 for a tie.
template <class Draws>
__device__ std::uint32_t draw_minus_level(float g, float limit, float factor, const Draws& draws, std::uint32_t word,
                                          int i, std::uint32_t high) {
  return draws.draw(word, i, g, high) - __float_as_uint(__fadd_rz(fminf(fabsf(g), limit) * factor, 0x1p23f));
}

/// Scaler, clip and derived numbers for ternarizing a chunk with a single scaler.
struct OneScaler {
  float scaler;
  float clip;
  float limit;
  float factor;
};

__device__ inline OneScaler one_scaler(float scaler, float clip) {
  return {scaler, clip, fminf(scaler, clip), __fdiv_rn(1.0f, scaler) * 65536.0f};
}

/// Like ternarize_run, but ties give 0. @param least  updated minimum of the differences; 0 if there are ties
template <class Draws>
__device__ std::uint32_t ternarize_whole_run(const float (&g)[kRunElements], const OneScaler& by,
                                             const Draws& of_worker, const uint4& draws, std::uint32_t high,
                                             std::uint32_t& least) {
  const std::uint32_t words[4] = {draws.x, draws.y, draws.z, draws.w};
  std::uint32_t codes = 0;
#pragma unroll
  for (int i = kRunElements - 1; i >= 0; --i) {
    const std::uint32_t distance = draw_minus_level(g[i], by.limit, by.factor, of_worker, words[i / 2], i, high);
    // Pushes two bits in from below: the sign of g if the difference is negative, then the sign of the difference.
    codes = __funnelshift_l(distance & __float_as_uint(g[i]), codes, 1);
    codes = __funnelshift_l(distance, codes, 1);
    least = min(least, distance);
  }
  return codes;
}

/// Resolves a run's ties, rereading the elements: about one element in 65536 ties.
/// @param count  elements of the run; missing ones, which are zeros and tie with draw 0, are skipped
template <class Element, class Draws>
__device__ std::uint32_t whole_run_ties(const Element* values, std::int64_t count, float scaler, float clip,
                                        const Draws& of_worker, const DrawStream& stream, std::uint64_t step,
                                        std::uint32_t worker, std::uint64_t block, std::uint32_t high,
                                        std::uint32_t refine_purpose) {
  const OneScaler by = one_scaler(scaler, clip);
  const uint4 draws = draw_block(stream, step, worker, stream.purpose, block);
  std::uint32_t codes = 0;
#pragma unroll 1
  for (int i = 0; i < kRunElements && i < count; ++i) {
    const float g = widened(values[i]);
    const std::uint32_t word = i < 2 ? draws.x : i < 4 ? draws.y : i < 6 ? draws.z : draws.w;
    if (draw_minus_level(g, by.limit, by.factor, of_worker, word, i, high) != 0) continue;
    const std::uint64_t draw = block * kRunElements + static_cast<unsigned>(i);
    const std::uint32_t bits = draw32(stream, step, worker, refine_purpose, draw) >> 8;
    if (resolve_tie(g, by.scaler, by.clip, of_worker.refinement(bits, g))) {
      codes |= (1u | __float_as_uint(g) >> 31 << 1) << (2 * i);
    }
  }
  return codes;
}

/// The thread's t2 word of a chunk of which it has two runs: at 8 * threadIdx.x, and at the same place in the second
/// half of the chunk. All threads of a block of kTernarizeThreads must call it.
/// @param least    0 if the codes lack those of ties
/// @param ties_of  called as ties_of(half)
template <class Ties>
__device__ ThreadWord chunk_word(std::uint32_t (&codes)[2], std::uint32_t least, float scaler, const Ties& ties_of) {
  if (least == 0) {
#pragma unroll 1
    for (unsigned half = 0; half < 2; ++half) {
      const std::uint32_t ties = ties_of(half);
      if (half == 0) codes[0] |= ties;
      if (half == 1) codes[1] |= ties;
    }
  }
  if (!(scaler >= kMinScaler)) codes[0] = codes[1] = 0;  // too small or NaN
  // A word combines the runs of two neighboring threads: the even thread takes the first runs, the odd one the second
  // runs.
  const bool odd = threadIdx.x % 2 == 1;
  const std::uint32_t taken = __shfl_xor_sync(kAllLanes, odd ? codes[0] : codes[1], 1);
  return odd ? ThreadWord{kChunkWords / 2 + threadIdx.x / 2, taken | codes[1] << 16}
             : ThreadWord{threadIdx.x / 2, codes[0] | taken << 16};
}

/// Scaler of a tile.
__device__ inline OneScaler scaler_of_tile(const WholeTile& tile) {
  return one_scaler(__ldg(tile.scaler), tile.clip == nullptr ? __uint_as_float(0x7f800000u) : __ldg(tile.clip));
}

/// One block per tile: a thread has two runs in each chunk and loads all of them before using the first.
template <class Element>
__global__ void __launch_bounds__(kTernarizeThreads, resident_blocks(4))
    ternarize_whole_kernel(const WholeTile* __restrict__ tiles, const DrawStream stream, const std::uint32_t high,
                           const std::uint32_t refine_purpose) {
  constexpr unsigned kSecond = kTernarizeThreads * kRunElements;
  const WholeTile tile = tiles[blockIdx.x];
  const Element* values = static_cast<const Element*>(tile.values) + threadIdx.x * kRunElements;
  RawRun<Element> runs[2 * kWholeChunks];
#pragma unroll
  for (unsigned i = 0; i < 2 * kWholeChunks; ++i) runs[i].load(values + i * kSecond);
  const OneScaler by = scaler_of_tile(tile);
  const std::uint64_t step = step_of(stream);
  const std::uint32_t worker = tile.draws.worker;
#pragma unroll
  for (unsigned chunk = 0; chunk < kWholeChunks; ++chunk) {
    std::uint32_t codes[2];
    std::uint32_t least = ~0u;
    const std::uint64_t first_block = tile.draw_block + 2 * chunk * kTernarizeThreads + threadIdx.x;
#pragma unroll
    for (unsigned half = 0; half < 2; ++half) {
      float g[kRunElements];
      runs[2 * chunk + half].widen(g);
      const uint4 draws = draw_block(stream, step, worker, stream.purpose, first_block + half * kTernarizeThreads);
      codes[half] = ternarize_whole_run(g, by, OwnDraws(), draws, high, least);
    }
    const ThreadWord mine = chunk_word(codes, least, by.scaler, [&](unsigned half) {
      return whole_run_ties(values + (2 * chunk + half) * kSecond, kRunElements, by.scaler, by.clip, OwnDraws(), stream,
                            step, worker, first_block + half * kTernarizeThreads, high, refine_purpose);
    });
    __stcg(tile.words + chunk * kChunkWords + mine.index, mine.word);
  }
}

/// One block for the tiles of all workers who share draws (Rounding::kStratified): it draws once for all of them.
template <class Element>
__global__ void __launch_bounds__(kTernarizeThreads, resident_blocks(2))
    ternarize_strata_kernel(const WholeTile* __restrict__ tiles, const StrataTiles* __restrict__ strata,
                            const DrawStream stream, const std::uint32_t high, const std::uint32_t refine_purpose) {
  constexpr unsigned kSecond = kTernarizeThreads * kRunElements;
  const StrataTiles mine = strata[blockIdx.x];
  const WholeTile* first = tiles + mine.first;
  const WholeTile* end = first + std::int64_t{mine.stride} * mine.count;
  const std::uint64_t step = step_of(stream);
  const std::uint32_t worker = first->draws.worker;
  const std::uint64_t first_block = first->draw_block + threadIdx.x;
  uint4 draws[2 * kWholeChunks];
#pragma unroll
  for (unsigned i = 0; i < 2 * kWholeChunks; ++i) {
    draws[i] = draw_block(stream, step, worker, stream.purpose, first_block + i * kTernarizeThreads);
  }
#pragma unroll 1
  for (const WholeTile* tile = first; tile < end; tile += mine.stride) {
    const Element* values = static_cast<const Element*>(tile->values) + threadIdx.x * kRunElements;
    RawRun<Element> runs[2 * kWholeChunks];
#pragma unroll
    for (unsigned i = 0; i < 2 * kWholeChunks; ++i) runs[i].load(values + i * kSecond);
    const OneScaler by = scaler_of_tile(*tile);
    const StratumDraws of_worker(tile->draws.stratum);
#pragma unroll
    for (unsigned chunk = 0; chunk < kWholeChunks; ++chunk) {
      std::uint32_t codes[2];
      std::uint32_t least = ~0u;
#pragma unroll
      for (unsigned half = 0; half < 2; ++half) {
        float g[kRunElements];
        runs[2 * chunk + half].widen(g);
        codes[half] = ternarize_whole_run(g, by, of_worker, draws[2 * chunk + half], high, least);
      }
      const ThreadWord word = chunk_word(codes, least, by.scaler, [&](unsigned half) {
        const unsigned i = 2 * chunk + half;
        return whole_run_ties(values + i * kSecond, kRunElements, by.scaler, by.clip, of_worker, stream, step, worker,
                              first_block + i * kTernarizeThreads, high, refine_purpose);
      });
      __stcg(tile->words + chunk * kChunkWords + word.index, word.word);
    }
  }
}

}  // namespace terngrad::cuda
