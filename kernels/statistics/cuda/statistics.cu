// Statistics on a GPU: the tree of kernels/statistics/statistics.h, a warp per chunk, then a warp or a block per slice.
#include "kernels/statistics/cuda/statistics.h"

#include <cuda_runtime.h>

#include <algorithm>
#include <cstdint>
#include <vector>

#include "kernels/runtime/cuda/launch.cuh"
#include "kernels/runtime/cuda/uploaded_table.h"
#include "kernels/statistics/cuda/statistics_chunk.cuh"
#include "kernels/tensor/cuda/elements.cuh"
#include "kernels/tensor/cuda/reduce.cuh"

namespace terngrad::cuda {
namespace {

constexpr unsigned kThreads = 256;
constexpr unsigned kWarps = kThreads / kWarpThreads;
constexpr int kVectorsInFlight = 8;
/// Chunks up to which a slice is combined by one warp: one chunk per lane.
constexpr std::int64_t kWarpChunks = kWarpThreads;

/// Where a worker's slice is.
struct Source {
  const void* values;
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

/// What becomes of a slice's statistics: themselves, or the scaler made of them (or only its flag). Exactly one pointer
/// is set.
struct Result {
  Statistics* statistics;
  float* scalers;
  double clip_factor;
  ScalerRule rule;
  std::uint32_t first_nonfinite;  // not 0: scalers are NaN from this magnitude on, else 0
};

/// One warp per chunk; blockIdx.y is the worker.
// With registers for 4 blocks of a multiprocessor, and not the 8 that there may be: a thread's loads then stay in
// flight together, where fewer registers would have them wait for each other.
template <class Element, SummedAs kSummed>
__global__ void __launch_bounds__(kThreads, 4)
    chunk_statistics_kernel(const Source* __restrict__ sources, std::int32_t num_slices, const Tile* __restrict__ tiles,
                            std::int64_t num_tiles, Statistics* __restrict__ partials) {
  const std::int64_t index = std::int64_t{blockIdx.x} * kWarps + threadIdx.x / kWarpThreads;
  if (index >= num_tiles) return;  // whole warps
  const Tile tile = tiles[index];
  const Source source = sources[std::int64_t{blockIdx.y} * num_slices + tile.slice];
  const std::int64_t begin = std::int64_t{tile.chunk} * kChunkElements;
  const Statistics result = warp_chunk_statistics<kVectorsInFlight, kSummed>(
      static_cast<const Element*>(source.values) + begin, min(kChunkElements, source.count - begin));
  if (threadIdx.x % kWarpThreads == 0) partials[std::int64_t{blockIdx.y} * num_tiles + index] = result;
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
  value = warp_combine(value);
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
  __shared__ Statistics slots[kStatisticsSlots];
  value = block_combine(value, slots);
  if (threadIdx.x == 0) write_result(value, range, num_slices, result);
}

/// A warp per worker: every lane joins the slices in order, which are few; together they write the scalers.
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
        small_table_(device),
        large_table_(device),
        sources_table_(device),
        counts_table_(device),
        statistics_(0, device) {
    for (std::size_t i = 0; i < slices_.size(); ++i) {
      const std::int64_t num_chunks = (slices_[i].count + kChunkElements - 1) / kChunkElements;
      const ChunkRange range = {static_cast<std::int64_t>(tiles_.size()), static_cast<std::int32_t>(num_chunks),
                                static_cast<std::int32_t>(i), slices_[i].count};
      counts_.push_back(slices_[i].count);
      (num_chunks <= kWarpChunks ? small_ : large_).push_back(range);
      for (std::int64_t chunk = 0; chunk < num_chunks; ++chunk) {
        tiles_.push_back({static_cast<std::int32_t>(i), static_cast<std::int32_t>(chunk)});
      }
    }
    // A launch holds 65535 workers; the memory for their partial results is made when their number is known.
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
    if (statistics_.num_elements() < needed) {
      stream.synchronize();
      statistics_ = Buffer<Statistics>(needed, stream.device());
    }
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
    if (partials_.num_elements() < num_tiles * num_workers) {
      stream.synchronize();
      partials_ = Buffer<Statistics>(num_tiles * num_workers, stream.device());
    }
    const auto num_slices = static_cast<std::int32_t>(slices_.size());
    const auto rows = static_cast<unsigned>(num_workers);
    const Source* sources = sources_table_.on_device(sources_, stream);
    const Tile* tiles = tiles_table_.on_device(tiles_, stream);
    with_element(workers.front().type(), [&]<class Element>(Element) {
      const auto kernel = summed == SummedAs::kMagnitudes ? chunk_statistics_kernel<Element, SummedAs::kMagnitudes>
                                                          : chunk_statistics_kernel<Element, SummedAs::kValues>;
      launch(kernel, dim3(num_blocks_for(num_tiles, kWarps), rows), dim3(kThreads), 0, stream, sources, num_slices,
             tiles, num_tiles, partials_.data());
    });
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
  UploadedTable<std::int64_t> counts_table_;
  std::vector<std::int64_t> counts_;  // elements of each slice
  Buffer<Statistics> partials_;       // one per worker and chunk
  Buffer<Statistics> statistics_;     // of model_scalers: one per worker and slice
};

}  // namespace

std::shared_ptr<StatisticsRunner> make_statistics_runner(std::span<const Slice> slices, const Device& device) {
  return std::make_shared<Runner>(slices, device);
}

}  // namespace terngrad::cuda
