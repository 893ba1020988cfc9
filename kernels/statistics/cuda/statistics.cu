// Statistics on a GPU, with the tree of kernels/statistics/statistics.h: one warp per chunk, then one warp per slice.
// For a slice with many chunks, several warps first reduce the slots of the tree.
#include "kernels/statistics/cuda/statistics.h"

#include <cuda_runtime.h>

#include <algorithm>
#include <cstdint>
#include <type_traits>
#include <vector>

#include "kernels/runtime/cuda/grow.h"
#include "kernels/runtime/cuda/launch.cuh"
#include "kernels/runtime/cuda/uploaded_table.h"
#include "kernels/statistics/cuda/statistics_chunk.cuh"
#include "kernels/tensor/cuda/elements.cuh"
#include "kernels/tensor/cuda/reduce.cuh"

namespace terngrad::cuda {
namespace {

constexpr unsigned kThreads = 256;
/// Threads per block when there are so few chunks that larger blocks would leave multiprocessors idle.
constexpr unsigned kFewThreads = 64;
constexpr std::int64_t kFewChunks = 132 * (kThreads / kWarpThreads);
constexpr int kVectorsInFlight = 8;
/// Slices with at most this many chunks are combined by one warp, one chunk per lane.
constexpr std::int64_t kWarpChunks = kWarpThreads;
/// Warps for the slots of a longer slice. Each reduces 32 slots to the 4 lanes of the tree's last levels that they
/// belong to.
constexpr unsigned kLanesPerWarp = 4;
constexpr unsigned kSlotWarps = kWarpThreads / kLanesPerWarp;
constexpr int kChunksInFlight = 16;  // unrolled iterations per slot, whose loads overlap
static_assert(kSlotWarps * kWarpThreads == kStatisticsSlots, "a thread per slot");

/// Address and length of a worker's slice.
struct Source {
  const void* values;
  std::int64_t count;
};

/// Chunk `chunk` of slice `slice`.
struct Tile {
  std::int32_t slice;
  std::int32_t chunk;
};

/// A slice and the location of its partial results for one worker.
struct ChunkRange {
  std::int64_t first;
  std::int32_t num_chunks;
  std::int32_t slice;
  std::int64_t count;  // elements
};

/// Output of the combination: a slice's statistics, or its scaler or flag. Exactly one pointer is set.
struct Result {
  Statistics* statistics;
  float* scalers;
  double clip_factor;
  ScalerRule rule;
  std::uint32_t first_nonfinite;  // nonzero: write NaN for magnitudes from this on, else 0, instead of scalers
};

/// One warp per chunk; blockIdx.y is the worker. Registers suffice for 4 resident blocks (3 for bfloat16) of at most 8:
/// with more blocks, a thread would have too few registers to keep all its loads in flight.
template <class Element, SummedAs kSummed>
__global__ void __launch_bounds__(kThreads, resident_blocks(std::is_same_v<Element, Bfloat16> ? 3 : 4))
    chunk_statistics_kernel(const Source* __restrict__ sources, std::int32_t num_slices, const Tile* __restrict__ tiles,
                            std::int64_t num_tiles, Statistics* __restrict__ partials, std::int64_t stride) {
  const std::int64_t index = std::int64_t{blockIdx.x} * (blockDim.x / kWarpThreads) + threadIdx.x / kWarpThreads;
  if (index >= num_tiles) return;  // whole warps
  const Tile tile = tiles[index];
  const Source source = sources[std::int64_t{blockIdx.y} * num_slices + tile.slice];
  const std::int64_t begin = std::int64_t{tile.chunk} * kChunkElements;
  const Statistics result = warp_chunk_statistics<kVectorsInFlight, kSummed>(
      static_cast<const Element*>(source.values) + begin, min(kChunkElements, source.count - begin));
  if (threadIdx.x % kWarpThreads == 0) partials[std::int64_t{blockIdx.y} * stride + index] = result;
}

__device__ void write_result(const Statistics& statistics, const ChunkRange& range, std::int32_t num_slices,
                             const Result& result) {
  const std::int64_t at = std::int64_t{blockIdx.y} * num_slices + range.slice;
  if (result.statistics != nullptr) {
    result.statistics[at] = statistics;
  } else if (result.first_nonfinite != 0) {
    result.scalers[at] = statistics.max_bits >= result.first_nonfinite ? __uint_as_float(0x7fc00000u) : 0.0f;
  } else {
    result.scalers[at] = scaler_of(statistics, range.count, result.clip_factor, result.rule);
  }
}

/// First levels of step 4 for a slice of more than 32 chunks: thread j of the slice holds slot j; adds slots j + 128,
/// 64 and 32. Stores the remaining 32 lanes after all chunks, for combine_kernel.
__global__ void __launch_bounds__(kWarpThreads)
    slot_kernel(Statistics* __restrict__ partials, std::int64_t num_tiles, std::int64_t stride,
                const ChunkRange* __restrict__ ranges) {
  const ChunkRange range = ranges[blockIdx.x / kSlotWarps];
  Statistics* of_worker = partials + std::int64_t{blockIdx.y} * stride;
  const Statistics* chunks = of_worker + range.first;
  const unsigned lane = blockIdx.x % kSlotWarps * kLanesPerWarp + threadIdx.x % kLanesPerWarp;
  const unsigned slot = threadIdx.x / kLanesPerWarp * kWarpThreads + lane;
  Statistics value = {0, 0, 0, 0};
#pragma unroll kChunksInFlight
  for (auto chunk = static_cast<std::int32_t>(slot); chunk < range.num_chunks;
       chunk += static_cast<std::int32_t>(kStatisticsSlots)) {
    value = combined(value, chunks[chunk]);
  }
#pragma unroll
  for (unsigned distance = kWarpThreads / 2; distance >= kLanesPerWarp; distance /= 2) {
    value = combined(value, shuffled_down(value, distance));
  }
  if (threadIdx.x < kLanesPerWarp) {
    of_worker[num_tiles + std::int64_t{blockIdx.x / kSlotWarps} * kWarpThreads + lane] = value;
  }
}

/// The rest of step 4, one warp per slice, on its up to 32 chunks or on the lanes from slot_kernel. Missing chunks
/// count as zeros, which change no bit.
__global__ void __launch_bounds__(kThreads)
    combine_kernel(const Statistics* __restrict__ partials, std::int64_t stride, const ChunkRange* __restrict__ ranges,
                   std::int32_t num_ranges, std::int32_t num_slices, Result result) {
  const std::int64_t index = std::int64_t{blockIdx.x} * (kThreads / kWarpThreads) + threadIdx.x / kWarpThreads;
  if (index >= num_ranges) return;  // whole warps
  const ChunkRange range = ranges[index];
  const unsigned lane = threadIdx.x % kWarpThreads;
  Statistics value = {0, 0, 0, 0};
  if (lane < static_cast<unsigned>(range.num_chunks)) {
    value = partials[std::int64_t{blockIdx.y} * stride + range.first + lane];
  }
  value = warp_combine(value);
  if (lane == 0) write_result(value, range, num_slices, result);
}

/// One warp per worker: every lane combines all slices in order (there are few); the lanes share the writing of
/// scalers.
__global__ void __launch_bounds__(kWarpThreads)
    model_scalers_kernel(const Statistics* __restrict__ statistics, const std::int64_t* __restrict__ counts,
                         std::int32_t num_slices, double clip_factor, ScalerRule rule, float* __restrict__ out) {
  const Statistics* of_worker = statistics + std::int64_t{blockIdx.x} * num_slices;
  Statistics all = {0, 0, 0, 0};
  std::int64_t count = 0;
  for (std::int32_t i = 0; i < num_slices; ++i) {
    const Statistics slice = of_worker[i];
    if (slice.max_bits >= 0x7f800000u) continue;
    all = combined(all, slice);
    count += counts[i];
  }
  const float scaler = scaler_of(all, count, clip_factor, rule);
  for (std::int32_t i = static_cast<std::int32_t>(threadIdx.x); i < num_slices;
       i += static_cast<std::int32_t>(kWarpThreads)) {
    const bool finite = of_worker[i].max_bits < 0x7f800000u;
    out[std::int64_t{blockIdx.x} * num_slices + i] = finite ? scaler : __uint_as_float(0x7fc00000u);
  }
}

class Runner final : public StatisticsRunner {
 public:
  Runner(std::span<const Slice> slices, const Device& device)
      : slices_(slices.begin(), slices.end()),
        tiles_table_(device),
        long_table_(device),
        combined_table_(device),
        sources_table_(device),
        counts_table_(device),
        statistics_(0, device) {
    for (std::size_t i = 0; i < slices_.size(); ++i) {
      const std::int64_t num_chunks = (slices_[i].count + kChunkElements - 1) / kChunkElements;
      const ChunkRange range = {static_cast<std::int64_t>(tiles_.size()), static_cast<std::int32_t>(num_chunks),
                                static_cast<std::int32_t>(i), slices_[i].count};
      counts_.push_back(slices_[i].count);
      (num_chunks <= kWarpChunks ? combined_ : long_).push_back(range);
      for (std::int64_t chunk = 0; chunk < num_chunks; ++chunk) {
        tiles_.push_back({static_cast<std::int32_t>(i), static_cast<std::int32_t>(chunk)});
      }
    }
    for (std::size_t i = 0; i < long_.size(); ++i) {
      ChunkRange lanes = long_[i];
      lanes.first = static_cast<std::int64_t>(tiles_.size() + i * kWarpThreads);
      lanes.num_chunks = static_cast<std::int32_t>(kWarpThreads);
      combined_.push_back(lanes);
    }
    // Sized when the number of workers (at most 65535 per launch) is known.
    partials_ = Buffer<Statistics>(0, device);
  }

  void statistics(std::span<const TensorTable> workers, Statistics* out, Stream& stream, SummedAs summed) override {
    run(workers, {out, nullptr, 0, ScalerRule::kPaper, 0}, summed, stream);
  }

  void local_scalers(std::span<const TensorTable> workers, double clip_factor, ScalerRule rule, float* out,
                     Stream& stream) override {
    run(workers, {nullptr, out, clip_factor, rule, 0}, summed_as(rule), stream);
  }

  void nonfinite_flags(std::span<const TensorTable> workers, std::uint32_t first_nonfinite, float* out,
                       Stream& stream) override {
    run(workers, {nullptr, out, 0, ScalerRule::kPaper, first_nonfinite}, SummedAs::kValues, stream);
  }

  void model_scalers(std::span<const TensorTable> workers, double clip_factor, ScalerRule rule, float* out,
                     Stream& stream) override {
    const auto needed = static_cast<std::int64_t>(workers.size() * slices_.size());
    if (needed == 0) return;
    grow(statistics_, needed, stream);
    statistics(workers, statistics_.data(), stream, SummedAs::kValues);
    launch(model_scalers_kernel, dim3(static_cast<unsigned>(workers.size())), dim3(kWarpThreads), 0, stream,
           statistics_.data(), counts_table_.on_device(counts_, stream), static_cast<std::int32_t>(slices_.size()),
           clip_factor, rule, out);
  }

 private:
  void run(std::span<const TensorTable> workers, const Result& result, SummedAs summed, Stream& stream) {
    if (workers.empty() || slices_.empty()) return;
    sources_.clear();
    for (const TensorTable& tensors : workers) {
      for (const Slice& slice : slices_) sources_.push_back({tensors.data(slice), slice.count});
    }
    const auto num_tiles = static_cast<std::int64_t>(tiles_.size());
    const auto num_workers = static_cast<std::int64_t>(workers.size());
    const std::int64_t stride = num_tiles + static_cast<std::int64_t>(long_.size() * kWarpThreads);
    grow(partials_, stride * num_workers, stream);
    const auto num_slices = static_cast<std::int32_t>(slices_.size());
    const auto rows = static_cast<unsigned>(num_workers);
    const Source* sources = sources_table_.on_device(sources_, stream);
    const Tile* tiles = tiles_table_.on_device(tiles_, stream);
    with_element(workers.front().type(), [&]<class Element>(Element) {
      const auto kernel = summed == SummedAs::kMagnitudes ? chunk_statistics_kernel<Element, SummedAs::kMagnitudes>
                                                          : chunk_statistics_kernel<Element, SummedAs::kValues>;
      const unsigned threads = num_tiles * num_workers < kFewChunks ? kFewThreads : kThreads;
      launch(kernel, dim3(num_blocks_for(num_tiles, threads / kWarpThreads), rows), dim3(threads), 0, stream, sources,
             num_slices, tiles, num_tiles, partials_.data(), stride);
    });
    launch(slot_kernel, dim3(static_cast<unsigned>(long_.size()) * kSlotWarps, rows), dim3(kWarpThreads), 0, stream,
           partials_.data(), num_tiles, stride, long_table_.on_device(long_, stream));
    const auto num_combined = static_cast<std::int32_t>(combined_.size());
    launch(combine_kernel, dim3(num_blocks_for(num_combined, kThreads / kWarpThreads), rows), dim3(kThreads), 0, stream,
           partials_.data(), stride, combined_table_.on_device(combined_, stream), num_combined, num_slices, result);
  }

  std::vector<Slice> slices_;
  std::vector<Tile> tiles_;
  std::vector<ChunkRange> long_;      // more than 32 chunks
  std::vector<ChunkRange> combined_;  // up to 32 chunks, and the remaining lanes of long slices
  std::vector<Source> sources_;
  UploadedTable<Tile> tiles_table_;
  UploadedTable<ChunkRange> long_table_;
  UploadedTable<ChunkRange> combined_table_;
  UploadedTable<Source> sources_table_;
  UploadedTable<std::int64_t> counts_table_;
  std::vector<std::int64_t> counts_;  // elements per slice
  Buffer<Statistics> partials_;       // per worker: one per chunk, then 32 per long slice
  Buffer<Statistics> statistics_;     // for model_scalers: one per worker and slice
};

}  // namespace

std::shared_ptr<StatisticsRunner> make_statistics_runner(std::span<const Slice> slices, const Device& device) {
  return std::make_shared<Runner>(slices, device);
}

}  // namespace terngrad::cuda
