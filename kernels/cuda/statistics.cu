// Statistics on a GPU: the tree of kernels/statistics.h, a warp per chunk, then a warp or a block per slice.
#include "kernels/cuda/statistics.h"

#include <cuda_runtime.h>

#include <algorithm>
#include <cstdint>
#include <vector>

#include "kernels/common/local_scaler.h"
#include "kernels/cuda/launch.cuh"
#include "kernels/cuda/reduce.cuh"
#include "kernels/cuda/uploaded_table.h"

namespace terngrad::cuda {
namespace {

constexpr unsigned kThreads = 256;
constexpr unsigned kWarps = kThreads / kWarpThreads;
/// Chunks up to which a slice is combined by one warp: one chunk per lane.
constexpr std::int64_t kWarpChunks = kWarpThreads;

/// Where a worker's slice is.
struct Source {
  const float* values;
  std::int64_t count;
};

/// Chunk `chunk` of slice `slice`.
struct Tile {
  std::int32_t slice;
  std::int32_t chunk;
};

/// A slice and its place among the partial results of one worker.
struct ChunkRange {
  std::int64_t first;
  std::int32_t num_chunks;
  std::int32_t slice;
  std::int64_t count;  // elements
};

/// What becomes of a slice's statistics: themselves, or the scaler made of them. Exactly one pointer is set.
struct Result {
  Statistics* statistics;
  float* scalers;
  double clip_factor;
  ScalerRule rule;
};

__device__ Statistics combined(const Statistics& a, const Statistics& b) {
  return {a.sum + b.sum, a.sum_squares + b.sum_squares, max(a.max_bits, b.max_bits), 0};
}

__device__ Statistics shuffled_down(const Statistics& value, unsigned distance) {
  return {__shfl_down_sync(kAllLanes, value.sum, distance), __shfl_down_sync(kAllLanes, value.sum_squares, distance),
          __shfl_down_sync(kAllLanes, value.max_bits, distance), 0};
}

/// The accumulators of one thread: lanes 4 * quad to 4 * quad + 3 of one row.
struct Accumulators {
  double sum[4] = {0, 0, 0, 0};
  double sum_squares[4] = {0, 0, 0, 0};
  std::uint32_t max_bits = 0;

  __device__ void take(int lane, float g) {
    const auto wide = static_cast<double>(g);
    sum[lane] += wide;
    sum_squares[lane] = __fma_rn(wide, wide, sum_squares[lane]);  // the product is exact, so fusing changes no bit
    max_bits = max(max_bits, __float_as_uint(g) & 0x7fffffffu);
  }
};

/// Elements of a row that a thread takes together: it has 32 groups of 4 in a whole chunk.
constexpr int kGroups = static_cast<int>(kStatisticsRowElements / kStatisticsLanes);
constexpr int kGroupsInFlight = 8;
static_assert(kStatisticsRows * kStatisticsLanes / 4 == kWarpThreads, "a warp holds the accumulators of a chunk");

/// A whole chunk that begins at a multiple of 16 bytes.
__device__ void accumulate_whole(const float* __restrict__ row, Accumulators& accumulators) {
  const auto* groups = reinterpret_cast<const float4*>(row);
  for (int group = 0; group < kGroups; group += kGroupsInFlight) {
    float4 g[kGroupsInFlight];
#pragma unroll
    for (int i = 0; i < kGroupsInFlight; ++i) g[i] = groups[(group + i) * static_cast<int>(kStatisticsLanes) / 4];
#pragma unroll
    for (int i = 0; i < kGroupsInFlight; ++i) {
      accumulators.take(0, g[i].x);
      accumulators.take(1, g[i].y);
      accumulators.take(2, g[i].z);
      accumulators.take(3, g[i].w);
    }
  }
}

/// `count` elements from the thread's first on, at any alignment. Absent elements leave their accumulators alone.
__device__ void accumulate_ragged(const float* __restrict__ row, std::int64_t count, Accumulators& accumulators) {
  for (int group = 0; group < kGroups; ++group) {
#pragma unroll
    for (int lane = 0; lane < 4; ++lane) {
      const int i = group * static_cast<int>(kStatisticsLanes) + lane;
      if (i < count) accumulators.take(lane, row[i]);
    }
  }
}

/// Steps 2 and 3 of the tree for one of the two sums: rows by their bits 0, 1, 2, then lanes j + 8, 4, 2, 1.
__device__ double combine_rows_and_lanes(double (&lanes)[4]) {
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

/// One warp per chunk; blockIdx.y is the worker. Lane 4 * r + q holds lanes 4q to 4q + 3 of row r.
__global__ void __launch_bounds__(kThreads)
    chunk_statistics_kernel(const Source* __restrict__ sources, std::int32_t num_slices, const Tile* __restrict__ tiles,
                            std::int64_t num_tiles, Statistics* __restrict__ partials) {
  const std::int64_t index = std::int64_t{blockIdx.x} * kWarps + threadIdx.x / kWarpThreads;
  if (index >= num_tiles) return;  // whole warps
  const Tile tile = tiles[index];
  const Source source = sources[std::int64_t{blockIdx.y} * num_slices + tile.slice];
  const std::int64_t begin = std::int64_t{tile.chunk} * kChunkElements;
  const std::int64_t count = min(kChunkElements, source.count - begin);
  const float* values = source.values + begin;

  const unsigned lane = threadIdx.x % kWarpThreads;
  const unsigned first = lane / 4 * static_cast<unsigned>(kStatisticsRowElements) + lane % 4 * 4;
  Accumulators accumulators;
  if (count == kChunkElements && reinterpret_cast<std::uintptr_t>(values) % sizeof(float4) == 0) {
    accumulate_whole(values + first, accumulators);
  } else {
    const auto row_end = std::int64_t{lane / 4 + 1} * static_cast<std::int64_t>(kStatisticsRowElements);
    accumulate_ragged(values + first, min(count, row_end) - first, accumulators);
  }
  const Statistics result = {combine_rows_and_lanes(accumulators.sum), combine_rows_and_lanes(accumulators.sum_squares),
                             __reduce_max_sync(kAllLanes, accumulators.max_bits), 0};
  if (lane == 0) partials[std::int64_t{blockIdx.y} * num_tiles + index] = result;
}

__device__ void write_result(const Statistics& statistics, const ChunkRange& range, std::int32_t num_slices,
                             const Result& result) {
  const std::int64_t at = std::int64_t{blockIdx.y} * num_slices + range.slice;
  if (result.statistics != nullptr) {
    result.statistics[at] = statistics;
  } else {
    result.scalers[at] =
        common::local_scaler(statistics, __uint_as_float(statistics.max_bits), __uint_as_float(0x7fc00000u),
                             range.count, result.clip_factor, result.rule);
  }
}

/// Step 4 for slices of up to 32 chunks, a warp each: slots beyond the chunks hold zeros, which change no bit.
__global__ void __launch_bounds__(kThreads)
    combine_small_kernel(const Statistics* __restrict__ partials, std::int64_t num_tiles,
                         const ChunkRange* __restrict__ ranges, std::int32_t num_ranges, std::int32_t num_slices,
                         Result result) {
  const std::int64_t index = std::int64_t{blockIdx.x} * kWarps + threadIdx.x / kWarpThreads;
  if (index >= num_ranges) return;  // whole warps
  const ChunkRange range = ranges[index];
  const unsigned lane = threadIdx.x % kWarpThreads;
  Statistics value = {0, 0, 0, 0};
  if (lane < static_cast<unsigned>(range.num_chunks)) {
    value = partials[std::int64_t{blockIdx.y} * num_tiles + range.first + lane];
  }
#pragma unroll
  for (unsigned distance = kWarpThreads / 2; distance > 0; distance /= 2) {
    value = combined(value, shuffled_down(value, distance));
  }
  if (lane == 0) write_result(value, range, num_slices, result);
}

/// Step 4 for a longer slice, a block each: thread j is slot j.
__global__ void __launch_bounds__(kThreads)
    combine_large_kernel(const Statistics* __restrict__ partials, std::int64_t num_tiles,
                         const ChunkRange* __restrict__ ranges, std::int32_t num_slices, Result result) {
  static_assert(kThreads == kStatisticsSlots, "a thread per slot");
  const ChunkRange range = ranges[blockIdx.x];
  const Statistics* chunks = partials + std::int64_t{blockIdx.y} * num_tiles + range.first;
  Statistics value = {0, 0, 0, 0};
#pragma unroll 8
  for (std::int32_t chunk = static_cast<std::int32_t>(threadIdx.x); chunk < range.num_chunks;
       chunk += static_cast<std::int32_t>(kThreads)) {
    value = combined(value, chunks[chunk]);
  }
  // Slots j + 128, 64 and 32 through shared memory; the rest in the first warp.
  __shared__ Statistics slots[kThreads];
  slots[threadIdx.x] = value;
  __syncthreads();
  for (unsigned distance = kThreads / 2; distance >= kWarpThreads; distance /= 2) {
    if (threadIdx.x < distance) slots[threadIdx.x] = combined(slots[threadIdx.x], slots[threadIdx.x + distance]);
    __syncthreads();
  }
  if (threadIdx.x >= kWarpThreads) return;
  value = slots[threadIdx.x];
#pragma unroll
  for (unsigned distance = kWarpThreads / 2; distance > 0; distance /= 2) {
    value = combined(value, shuffled_down(value, distance));
  }
  if (threadIdx.x == 0) write_result(value, range, num_slices, result);
}

class Runner final : public StatisticsRunner {
 public:
  Runner(std::span<const Slice> slices, const Device& device)
      : slices_(slices.begin(), slices.end()),
        tiles_table_(device),
        small_table_(device),
        large_table_(device),
        sources_table_(device) {
    for (std::size_t i = 0; i < slices_.size(); ++i) {
      const std::int64_t num_chunks = (slices_[i].count + kChunkElements - 1) / kChunkElements;
      const ChunkRange range = {static_cast<std::int64_t>(tiles_.size()), static_cast<std::int32_t>(num_chunks),
                                static_cast<std::int32_t>(i), slices_[i].count};
      (num_chunks <= kWarpChunks ? small_ : large_).push_back(range);
      for (std::int64_t chunk = 0; chunk < num_chunks; ++chunk) {
        tiles_.push_back({static_cast<std::int32_t>(i), static_cast<std::int32_t>(chunk)});
      }
    }
    // A launch holds 65535 workers; the memory for their partial results is made when their number is known.
    partials_ = Buffer<Statistics>(0, device);
  }

  void statistics(std::span<const TensorTable> workers, Statistics* out, Stream& stream) override {
    run(workers, {out, nullptr, 0, ScalerRule::kPaper}, stream);
  }

  void local_scalers(std::span<const TensorTable> workers, double clip_factor, ScalerRule rule, float* out,
                     Stream& stream) override {
    run(workers, {nullptr, out, clip_factor, rule}, stream);
  }

 private:
  void run(std::span<const TensorTable> workers, const Result& result, Stream& stream) {
    if (workers.empty() || slices_.empty()) return;
    sources_.clear();
    for (const TensorTable& tensors : workers) {
      for (const Slice& slice : slices_) sources_.push_back({tensors.slice(slice), slice.count});
    }
    const auto num_tiles = static_cast<std::int64_t>(tiles_.size());
    const auto num_workers = static_cast<std::int64_t>(workers.size());
    if (partials_.num_elements() < num_tiles * num_workers) {
      stream.synchronize();
      partials_ = Buffer<Statistics>(num_tiles * num_workers, stream.device());
    }
    const auto num_slices = static_cast<std::int32_t>(slices_.size());
    const auto rows = static_cast<unsigned>(num_workers);
    const Source* sources = sources_table_.on_device(sources_, stream);
    launch(chunk_statistics_kernel, dim3(num_blocks_for(num_tiles, kWarps), rows), dim3(kThreads), 0, stream, sources,
           num_slices, tiles_table_.on_device(tiles_, stream), num_tiles, partials_.data());
    const auto num_small = static_cast<std::int32_t>(small_.size());
    launch(combine_small_kernel, dim3(num_blocks_for(num_small, kWarps), rows), dim3(kThreads), 0, stream,
           partials_.data(), num_tiles, small_table_.on_device(small_, stream), num_small, num_slices, result);
    launch(combine_large_kernel, dim3(static_cast<unsigned>(large_.size()), rows), dim3(kThreads), 0, stream,
           partials_.data(), num_tiles, large_table_.on_device(large_, stream), num_slices, result);
  }

  std::vector<Slice> slices_;
  std::vector<Tile> tiles_;
  std::vector<ChunkRange> small_;
  std::vector<ChunkRange> large_;
  std::vector<Source> sources_;
  UploadedTable<Tile> tiles_table_;
  UploadedTable<ChunkRange> small_table_;
  UploadedTable<ChunkRange> large_table_;
  UploadedTable<Source> sources_table_;
  Buffer<Statistics> partials_;  // one per worker and chunk
};

}  // namespace

std::shared_ptr<StatisticsRunner> make_statistics_runner(std::span<const Slice> slices, const Device& device) {
  return std::make_shared<Runner>(slices, device);
}

}  // namespace terngrad::cuda
