// Reduction tree of one chunk by one warp, and the combination of chunks; kernels/statistics/statistics.h defines the
// tree.
#pragma once

#include <cuda_runtime.h>

#include <cstdint>

#include "kernels/statistics/common/local_scaler.h"
#include "kernels/statistics/signed_statistics.h"
#include "kernels/statistics/statistics.h"
#include "kernels/tensor/cuda/elements.cuh"
#include "kernels/tensor/cuda/reduce.cuh"

namespace terngrad::cuda {

__device__ inline Statistics combined(const Statistics& a, const Statistics& b) {
  return {a.sum + b.sum, a.sum_squares + b.sum_squares, max(a.max_bits, b.max_bits), 0};
}

__device__ inline Statistics shuffled_down(const Statistics& value, unsigned distance) {
  return {__shfl_down_sync(kAllLanes, value.sum, distance), __shfl_down_sync(kAllLanes, value.sum_squares, distance),
          __shfl_down_sync(kAllLanes, value.max_bits, distance), 0};
}

__device__ inline SignedStatistics combined(const SignedStatistics& a, const SignedStatistics& b) {
  return {a.sum_positive + b.sum_positive, a.sum_negative + b.sum_negative, a.num_negative + b.num_negative,
          max(a.max_positive, b.max_positive), max(a.max_negative, b.max_negative)};
}

__device__ inline SignedStatistics shuffled_down(const SignedStatistics& value, unsigned distance) {
  return {__shfl_down_sync(kAllLanes, value.sum_positive, distance),
          __shfl_down_sync(kAllLanes, value.sum_negative, distance),
          __shfl_down_sync(kAllLanes, value.num_negative, distance),
          __shfl_down_sync(kAllLanes, value.max_positive, distance),
          __shfl_down_sync(kAllLanes, value.max_negative, distance)};
}

/// The accumulators of one thread: lanes 4 * quad to 4 * quad + 3 of one row.
template <SummedAs kSummed>
struct Accumulators {
  double sum[4] = {0, 0, 0, 0};
  double sum_squares[4] = {0, 0, 0, 0};
  std::uint32_t max_bits = 0;

  __device__ void take(int lane, float g) {
    const auto wide = static_cast<double>(g);
    sum[lane] += kSummed == SummedAs::kMagnitudes ? fabs(wide) : wide;
    sum_squares[lane] = __fma_rn(wide, wide, sum_squares[lane]);  // the product is exact, so fusing changes no bit
    max_bits = max(max_bits, __float_as_uint(g) & 0x7fffffffu);
  }
};

/// Accumulates four 16-bit elements.
template <class Element, class Sums>
__device__ void take_quad(std::uint32_t low, std::uint32_t high, Sums& accumulators) {
  const float2 first = widened_pair<Element>(low);
  const float2 second = widened_pair<Element>(high);
  accumulators.take(0, first.x);
  accumulators.take(1, first.y);
  accumulators.take(2, second.x);
  accumulators.take(3, second.y);
}

/// Groups of 4 elements that a thread accumulates per row: 32 in a whole chunk.
constexpr int kGroups = static_cast<int>(kStatisticsRowElements / kStatisticsLanes);
constexpr int kGroupsInFlight = 8;
static_assert(kStatisticsRows * kStatisticsLanes / 4 == kWarpThreads, "a warp holds the accumulators of a chunk");

/// Accumulates a whole chunk that begins at a multiple of 16 bytes.
/// @param row  the thread's first element
/// @tparam Sums  accumulators with take(lane, g), for lanes 4 * quad to 4 * quad + 3 of one row
template <int, class Sums>
__device__ void accumulate_whole(const float* __restrict__ row, Sums& accumulators) {
  const auto* groups = reinterpret_cast<const float4*>(row);
  for (int group = 0; group < kGroups; group += kGroupsInFlight) {
    float4 g[kGroupsInFlight];
#pragma unroll
    for (int i = 0; i < kGroupsInFlight; ++i)
      g[i] = __ldg(groups + (group + i) * static_cast<int>(kStatisticsLanes) / 4);
#pragma unroll
    for (int i = 0; i < kGroupsInFlight; ++i) {
      accumulators.take(0, g[i].x);
      accumulators.take(1, g[i].y);
      accumulators.take(2, g[i].z);
      accumulators.take(3, g[i].w);
    }
  }
}

/// The same for 16-bit elements. A 16-byte vector holds two threads' elements of a group: of two neighboring threads
/// one loads even groups and the other odd groups, and they exchange halves.
template <int kVectorsInFlight, class Element, class Sums>
__device__ void accumulate_whole(const Element* __restrict__ row, Sums& accumulators) {
  constexpr int kGroupVectors = static_cast<int>(kStatisticsLanes * sizeof(Element) / kVectorBytes);
  const bool odd = threadIdx.x % 2 == 1;
  const auto* vectors = reinterpret_cast<const uint4*>(odd ? row - 4 + kStatisticsLanes : row);
#pragma unroll 1
  for (int group = 0; group < kGroups; group += 2 * kVectorsInFlight) {
    uint4 g[std::size_t{kVectorsInFlight}];
#pragma unroll
    for (int i = 0; i < kVectorsInFlight; ++i) g[i] = __ldg(vectors + (group + 2 * i) * kGroupVectors);
#pragma unroll
    for (int i = 0; i < kVectorsInFlight; ++i) {
      const std::uint32_t taken_low = __shfl_xor_sync(kAllLanes, odd ? g[i].x : g[i].z, 1);
      const std::uint32_t taken_high = __shfl_xor_sync(kAllLanes, odd ? g[i].y : g[i].w, 1);
      take_quad<Element>(odd ? taken_low : g[i].x, odd ? taken_high : g[i].y, accumulators);
      take_quad<Element>(odd ? g[i].z : taken_low, odd ? g[i].w : taken_high, accumulators);
    }
  }
}

/// Accumulates `count` elements from the thread's first on, at any alignment. Absent elements change no accumulator.
template <class Element, class Sums>
__device__ void accumulate_ragged(const Element* __restrict__ row, std::int64_t count, Sums& accumulators) {
  for (int group = 0; group < kGroups; ++group) {
#pragma unroll
    for (int lane = 0; lane < 4; ++lane) {
      const int i = group * static_cast<int>(kStatisticsLanes) + lane;
      if (i < count) accumulators.take(lane, widened(row[i]));
    }
  }
}

/// Steps 2 and 3 of the tree for one sum: rows by their bits 0, 1, 2, then lanes j + 8, 4, 2, 1.
__device__ inline double combine_rows_and_lanes(double (&lanes)[4]) {
#pragma unroll
  for (unsigned distance = 4; distance < kWarpThreads; distance *= 2) {
#pragma unroll
    for (double& lane : lanes) lane += __shfl_xor_sync(kAllLanes, lane, static_cast<int>(distance));
  }
#pragma unroll
  for (int distance = 2; distance > 0; distance /= 2) {
#pragma unroll
    for (double& lane : lanes) lane += __shfl_xor_sync(kAllLanes, lane, distance);
  }
  return (lanes[0] + lanes[2]) + (lanes[1] + lanes[3]);
}

/// Accumulates `count` elements, at most a chunk. The whole warp must call it: lane 4 * r + q holds lanes 4q to 4q + 3
/// of row r.
/// @tparam kVectorsInFlight  vectors of 16-bit elements that a thread loads before it uses the first; limited by
/// registers
template <int kVectorsInFlight, class Element, class Sums>
__device__ void accumulate_chunk(const Element* __restrict__ values, std::int64_t count, Sums& accumulators) {
  const unsigned lane = threadIdx.x % kWarpThreads;
  const unsigned first = lane / 4 * static_cast<unsigned>(kStatisticsRowElements) + lane % 4 * 4;
  // The condition is the same in all lanes. The vote tells the compiler so: otherwise it would emit a second copy of
  // the shuffles for diverged warps.
  if (__all_sync(kAllLanes, count == kChunkElements && is_vector_aligned(values))) {
    accumulate_whole<kVectorsInFlight>(values + first, accumulators);
  } else {
    const auto row_end = std::int64_t{lane / 4 + 1} * static_cast<std::int64_t>(kStatisticsRowElements);
    accumulate_ragged(values + first, min(count, row_end) - first, accumulators);
  }
}

/// Statistics of `count` elements, at most a chunk. Whole warps must call it; every lane gets the result.
template <int kVectorsInFlight, SummedAs kSummed = SummedAs::kValues, class Element>
__device__ Statistics warp_chunk_statistics(const Element* __restrict__ values, std::int64_t count) {
  Accumulators<kSummed> accumulators;
  accumulate_chunk<kVectorsInFlight>(values, count, accumulators);
  return {combine_rows_and_lanes(accumulators.sum), combine_rows_and_lanes(accumulators.sum_squares),
          warp_max(accumulators.max_bits), 0};
}

/// Last levels of the tree over slots: lane j takes j + 16, 8, 4, 2, 1. Whole warps must call it; lane 0 gets the
/// result.
/// @tparam Result  type with overloads of combined and shuffled_down
template <class Result>
__device__ Result warp_combine(Result value) {
#pragma unroll
  for (unsigned distance = kWarpThreads / 2; distance > 0; distance /= 2) {
    value = combined(value, shuffled_down(value, distance));
  }
  return value;
}

/// Step 4 of the tree over a block of 256 threads: thread j holds slot j. Every thread must call it; thread 0 gets the
/// result.
/// @param slots  shared memory; put a barrier before it is used again
template <class Result>
__device__ Result block_combine(Result value, Result (&slots)[kStatisticsSlots]) {
  slots[threadIdx.x] = value;
  __syncthreads();
  for (unsigned distance = kStatisticsSlots / 2; distance >= kWarpThreads; distance /= 2) {
    if (threadIdx.x < distance) slots[threadIdx.x] = combined(slots[threadIdx.x], slots[threadIdx.x + distance]);
    __syncthreads();
  }
  return threadIdx.x < kWarpThreads ? warp_combine(slots[threadIdx.x]) : value;
}

/// Local scaler for these statistics.
__device__ inline float scaler_of(const Statistics& statistics, std::int64_t count, double clip_factor,
                                  ScalerRule rule) {
  return common::local_scaler(statistics, __uint_as_float(statistics.max_bits), __uint_as_float(0x7fc00000u), count,
                              clip_factor, rule);
}

}  // namespace terngrad::cuda
