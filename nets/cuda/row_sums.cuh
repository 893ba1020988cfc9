// Sums over the rows of [workers, rows, channels], in a fixed order that depends on rows and channels only.
#pragma once

#include <cuda_runtime.h>

#include <algorithm>
#include <bit>
#include <cstdint>

#include "kernels/runtime/cuda/launch.cuh"

namespace terngrad::cuda {

/// Work distribution: a block has `lanes` threads for adjacent channels times as many rows as fit. Rows are cut into
/// chunks of equal size, one per block.
struct RowSumPlan {
  static constexpr int kThreads = 256;
  static constexpr int kBlocks = 3;  // resident blocks per multiprocessor: leaves a thread 80 registers
  static constexpr int kMaxLanes = 32;
  static constexpr int kMinRowsPerThread = 8;
  static constexpr int kMaxChunks = 256;

  RowSumPlan(std::int64_t num_rows, int num_channels) : rows(num_rows), channels(num_channels) {
    lanes = std::min(kMaxLanes, static_cast<int>(std::bit_ceil(static_cast<unsigned>(num_channels))));
    const std::int64_t min = std::int64_t{kMinRowsPerThread} * (kThreads / lanes);
    rows_per_chunk = std::max(min, (rows + kMaxChunks - 1) / kMaxChunks);
    num_chunks = static_cast<int>((rows + rows_per_chunk - 1) / rows_per_chunk);
  }

  /// Number of chunk sums in scratch memory.
  std::int64_t scratch_sums(int num_workers) const {
    return num_chunks == 1 ? 0 : std::int64_t{num_workers} * num_chunks * channels;
  }

  std::int64_t rows;
  int channels;
  int lanes;
  std::int64_t rows_per_chunk;
  int num_chunks;
};

/// blockIdx: (channels, chunk, worker). Each thread adds every (threads / lanes)-th row of its chunk to four sums in
/// turn, and these as (0 + 1) + (2 + 3); then the threads of one channel are added in halves.
template <class Sum, class Term, class Store>
__global__ void __launch_bounds__(RowSumPlan::kThreads, resident_blocks(RowSumPlan::kBlocks))
    sum_rows_kernel(RowSumPlan plan, Term term, Store store) {
  constexpr int kSums = 4;
  __shared__ Sum of_thread[RowSumPlan::kThreads];
  const int thread = static_cast<int>(threadIdx.x);
  const int worker = static_cast<int>(blockIdx.z);
  const int channel = static_cast<int>(blockIdx.x) * plan.lanes + thread % plan.lanes;
  const int row_threads = RowSumPlan::kThreads / plan.lanes;
  const std::int64_t first = blockIdx.y * plan.rows_per_chunk;
  const std::int64_t end = min(first + plan.rows_per_chunk, plan.rows);
  Sum sums[kSums] = {};
  if (channel < plan.channels) {
#pragma unroll 1
    for (std::int64_t row = first + thread / plan.lanes; row < end; row += kSums * row_threads) {
#pragma unroll
      for (int i = 0; i < kSums; ++i) {
        const std::int64_t at = row + i * row_threads;
        if (at < end) sums[i] = sums[i] + term(worker, at, channel);
      }
    }
  }
  of_thread[thread] = (sums[0] + sums[1]) + (sums[2] + sums[3]);
  __syncthreads();
  for (int half = RowSumPlan::kThreads / 2; half >= plan.lanes; half /= 2) {
    if (thread < half) of_thread[thread] = of_thread[thread] + of_thread[thread + half];
    __syncthreads();
  }
  if (thread < plan.lanes && channel < plan.channels) {
    store(worker, static_cast<int>(blockIdx.y), channel, of_thread[thread]);
  }
}

/// Chunk sums [worker, chunk, channel], written by one launch and read by the next.
template <class Sum>
struct ChunkSums {
  Sum* sums;
  int num_chunks;
  int channels;
  __device__ std::int64_t at(int worker, std::int64_t chunk, int channel) const {
    return (std::int64_t{worker} * num_chunks + chunk) * channels + channel;
  }
  __device__ Sum operator()(int worker, std::int64_t chunk, int channel) const {
    return sums[at(worker, chunk, channel)];
  }
  __device__ void operator()(int worker, int chunk, int channel, const Sum& sum) const {
    sums[at(worker, chunk, channel)] = sum;
  }
};

template <class Sum, class Term, class Store>
void launch_row_sums(const RowSumPlan& plan, int num_workers, const Term& term, const Store& store,
                     const Stream& stream) {
  const unsigned groups = num_blocks_for(plan.channels, plan.lanes);
  const dim3 grid(groups, static_cast<unsigned>(plan.num_chunks), static_cast<unsigned>(num_workers));
  void (*const kernel)(RowSumPlan, Term, Store) = sum_rows_kernel<Sum, Term, Store>;
  launch(kernel, grid, dim3(RowSumPlan::kThreads), 0, stream, plan, term, store);
}

/// store(worker, 0, channel, sum over rows of term(worker, row, channel)) for every worker and channel.
/// @tparam Sum     has operator+ and is zero when value-initialized
/// @param scratch  [plan.scratch_sums(num_workers)]
template <class Sum, class Term, class Store>
void sum_rows(std::int64_t rows, int channels, int num_workers, const Term& term, const Store& store, Sum* scratch,
              const Stream& stream) {
  const RowSumPlan plan(rows, channels);
  if (plan.num_chunks == 1) {
    launch_row_sums<Sum>(plan, num_workers, term, store, stream);
    return;
  }
  const ChunkSums<Sum> chunks{scratch, plan.num_chunks, channels};
  launch_row_sums<Sum>(plan, num_workers, term, chunks, stream);
  RowSumPlan of_chunks(plan.num_chunks, channels);
  of_chunks.rows_per_chunk = plan.num_chunks;
  of_chunks.num_chunks = 1;
  launch_row_sums<Sum>(of_chunks, num_workers, chunks, store, stream);
}

}  // namespace terngrad::cuda
