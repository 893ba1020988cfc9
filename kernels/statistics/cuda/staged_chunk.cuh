// Reduction tree of one chunk in shared memory, with one thread per accumulator; kernels/statistics/statistics.h
// defines the tree. For blocks that process one chunk each: a single warp (statistics_chunk.cuh) would leave the others
// idle.
#pragma once

#include <cuda_runtime.h>

#include <cstdint>

#include "kernels/statistics/cuda/statistics_chunk.cuh"
#include "kernels/tensor/cuda/elements.cuh"

namespace terngrad::cuda {

/// Threads that reduce a chunk together, in whole warps: thread 16 * r + j has lane j of row r.
inline constexpr unsigned kReducingThreads = static_cast<unsigned>(kStatisticsRows * kStatisticsLanes);
inline constexpr unsigned kReducingWarps = kReducingThreads / kWarpThreads;
static_assert(2 * kStatisticsLanes == kWarpThreads && kStatisticsRows == 2 * kReducingWarps, "a warp has two rows");

/// A chunk in memory order, with gaps that avoid bank conflicts of shared memory, both for threads that write 32 bytes
/// each, 16 at a time, and for a warp that reads the same position of two rows.
template <class Element>
struct StagedChunk {
  static constexpr unsigned kRow = static_cast<unsigned>(kStatisticsRowElements);
  static constexpr unsigned kGap = sizeof(Element) == sizeof(float) ? 4 : 0;  // after every 32 elements
  static constexpr unsigned kRowStride = kRow + kRow / 32 * kGap + static_cast<unsigned>(kStatisticsLanes);
  alignas(kVectorBytes) Element elements[kStatisticsRows * kRowStride];

  /// Position of element `i`; elements up to the next multiple of 32 follow contiguously.
  __device__ static unsigned place(unsigned i) { return i / kRow * kRowStride + i % kRow / 32 * (32 + kGap) + i % 32; }
};

/// Partial results of a chunk's warps for the final combination: 16 sums, then 16 sums of squares per pair of rows.
struct ChunkPartials {
  double sums[kReducingWarps][kWarpThreads];
  std::uint32_t max_bits[kReducingWarps];
};

/// Step 1 of the tree, and step 2 for pairs of rows. Absent elements must be zeros, which change no bit.
/// @param thread  0 to kReducingThreads - 1; whole warps must call it
template <class Element>
__device__ void reduce_staged(const StagedChunk<Element>& chunk, unsigned thread, ChunkPartials& partials) {
  constexpr int kLanes = static_cast<int>(kStatisticsLanes);
  constexpr int kStride = 2 * kLanes + static_cast<int>(StagedChunk<Element>::kGap);
  const unsigned lane = thread % kWarpThreads;
  const Element* mine =
      chunk.elements + thread / kStatisticsLanes * StagedChunk<Element>::kRowStride + thread % kStatisticsLanes;
  double sum = 0;
  double sum_squares = 0;
  std::uint32_t max_bits = 0;
#pragma unroll 8
  for (int pair = 0; pair < kGroups / 2; ++pair) {
#pragma unroll
    for (int i = 0; i < 2; ++i) {
      const float g = widened(mine[pair * kStride + i * kLanes]);
      const auto wide = static_cast<double>(g);
      sum += wide;
      sum_squares = __fma_rn(wide, wide, sum_squares);  // the product is exact, so fusing changes no bit
      max_bits = max(max_bits, __float_as_uint(g) & 0x7fffffffu);
    }
  }
  sum += __shfl_xor_sync(kAllLanes, sum, kLanes);
  sum_squares += __shfl_xor_sync(kAllLanes, sum_squares, kLanes);
  max_bits = warp_max(max_bits);
  partials.sums[thread / kWarpThreads][lane] = lane < kStatisticsLanes ? sum : sum_squares;
  if (lane == 0) partials.max_bits[thread / kWarpThreads] = max_bits;
}

/// The remaining steps 2 and 3. A whole warp must call it; lane 0 gets the result.
__device__ inline Statistics combined_partials(const ChunkPartials& partials) {
  static_assert(kReducingWarps == 4, "the order of rows is written out");
  const unsigned lane = threadIdx.x % kWarpThreads;
  double value = (partials.sums[0][lane] + partials.sums[1][lane]) + (partials.sums[2][lane] + partials.sums[3][lane]);
#pragma unroll
  for (int distance = static_cast<int>(kStatisticsLanes) / 2; distance > 0; distance /= 2) {
    value += __shfl_xor_sync(kAllLanes, value, distance);
  }
  const double sum_squares = __shfl_down_sync(kAllLanes, value, static_cast<unsigned>(kStatisticsLanes));
  const std::uint32_t max_bits =
      max(max(partials.max_bits[0], partials.max_bits[1]), max(partials.max_bits[2], partials.max_bits[3]));
  return {value, sum_squares, max_bits, 0};
}

}  // namespace terngrad::cuda
