// Signed statistics on a GPU: one warp per chunk, or one thread per column of a block of rows; then one warp or block
// per group.
#include "kernels/statistics/cuda/signed_statistics.h"

#include <cuda_runtime.h>

#include <algorithm>
#include <cstdint>
#include <vector>

#include "kernels/runtime/cuda/grow.h"
#include "kernels/runtime/cuda/launch.cuh"
#include "kernels/runtime/cuda/uploaded_table.h"
#include "kernels/runtime/errors.h"
#include "kernels/statistics/common/side_means.h"
#include "kernels/statistics/cuda/statistics_chunk.cuh"
#include "kernels/tensor/cuda/elements.cuh"
#include "kernels/tensor/cuda/reduce.cuh"

namespace terngrad::cuda {
namespace {

constexpr unsigned kThreads = 256;
#if defined(__CUDA_ARCH__) && (__CUDA_ARCH__ == 860 || __CUDA_ARCH__ == 890)
constexpr int kChunkBlocks = 4;  // resident blocks; with its own choice the compiler spills registers
#else
constexpr int kChunkBlocks = 0;  // the compiler's choice
#endif
constexpr unsigned kWarps = kThreads / kWarpThreads;
constexpr int kVectorsInFlight = 4;
/// Groups with at most this many parts are combined by one warp, one part per lane.
constexpr std::int64_t kWarpParts = kWarpThreads;

/// Address and length of a worker's run.
struct Source {
  const void* values;
  std::int64_t count;
};

/// One chunk of a run, or up to kThreads columns of a block of its rows.
struct Tile {
  std::int64_t partial;  // index for the chunk, or for the first column
  std::int64_t first;    // first element
  std::int32_t run;
  std::int32_t columns;  // columns of the run; 0: a chunk
  std::int64_t column;   // first column of the tile
};

/// A run's groups: location of their partial results and of their output.
struct Groups {
  std::int64_t first_partial;  // [num_parts][num_groups]
  std::int64_t first_group;
  std::int64_t num_groups;
  std::int64_t first_tile;  // for kernels with one warp or block per group
  std::int64_t count;       // elements per group
  std::int32_t num_parts;
  std::int32_t reserved;  // zero, so that equal tables are equal bytes
};

/// Output of the combination: a group's statistics, or its two scalers. Exactly one pointer is set.
struct Result {
  SignedStatistics* statistics;
  float* scalers;
  std::int64_t num_groups;  // per worker
};

/// The accumulators of one thread: lanes 4 * quad to 4 * quad + 3 of one row.
struct SideAccumulators {
  double positive[4] = {0, 0, 0, 0};
  double negative[4] = {0, 0, 0, 0};
  std::uint32_t num_negative = 0;
  std::uint32_t max_positive = 0;
  std::uint32_t max_negative = 0;

  __device__ void take(int lane, float g) {
    const std::uint32_t bits = __float_as_uint(g);
    const std::uint32_t magnitude = bits & 0x7fffffffu;
    const auto wide = static_cast<double>(__uint_as_float(magnitude));
    const bool is_negative = bits >> 31 != 0;
    positive[lane] += is_negative ? 0.0 : wide;
    negative[lane] += is_negative ? wide : 0.0;
    num_negative += is_negative ? 1u : 0u;
    max_positive = max(max_positive, is_negative ? 0u : magnitude);
    max_negative = max(max_negative, is_negative ? magnitude : 0u);
  }

  /// Statistics of the whole warp's chunk; every lane gets them.
  __device__ SignedStatistics combined_chunk() {
    return {combine_rows_and_lanes(positive), combine_rows_and_lanes(negative), warp_sum(num_negative),
            warp_max(max_positive), warp_max(max_negative)};
  }
};

/// One warp per chunk; blockIdx.y is the worker.
template <class Element>
__global__ void __launch_bounds__(kThreads, kChunkBlocks)
    signed_chunk_kernel(const Source* __restrict__ sources, std::int32_t num_runs, const Tile* __restrict__ tiles,
                        std::int64_t num_tiles, std::int64_t num_partials, SignedStatistics* __restrict__ partials) {
  const std::int64_t index = std::int64_t{blockIdx.x} * kWarps + threadIdx.x / kWarpThreads;
  if (index >= num_tiles) return;  // whole warps
  const Tile tile = tiles[index];
  const Source source = sources[std::int64_t{blockIdx.y} * num_runs + tile.run];
  SideAccumulators accumulators;
  accumulate_chunk<kVectorsInFlight>(static_cast<const Element*>(source.values) + tile.first,
                                     min(kChunkElements, source.count - tile.first), accumulators);
  const SignedStatistics result = accumulators.combined_chunk();
  if (threadIdx.x % kWarpThreads == 0) partials[std::int64_t{blockIdx.y} * num_partials + tile.partial] = result;
}

/// One thread per column; blockIdx.y is the worker.
template <class Element>
__global__ void __launch_bounds__(kThreads)
    column_kernel(const Source* __restrict__ sources, std::int32_t num_runs, const Tile* __restrict__ tiles,
                  std::int64_t num_partials, SignedStatistics* __restrict__ partials) {
  const Tile tile = tiles[blockIdx.x];
  const Source source = sources[std::int64_t{blockIdx.y} * num_runs + tile.run];
  const std::int64_t column = tile.column + threadIdx.x;
  if (column >= tile.columns) return;
  const std::int64_t rows = min(kColumnBlockRows, (source.count - tile.first) / tile.columns);
  const Element* values = static_cast<const Element*>(source.values) + tile.first + column;
  SideAccumulators accumulators;  // uses one lane of them
  for (std::int64_t row = 0; row < rows; ++row) accumulators.take(0, widened(values[row * tile.columns]));
  partials[std::int64_t{blockIdx.y} * num_partials + tile.partial + threadIdx.x] = {
      accumulators.positive[0], accumulators.negative[0], accumulators.num_negative, accumulators.max_positive,
      accumulators.max_negative};
}

__device__ void write_result(const SignedStatistics& statistics, const Groups& groups, std::int64_t group,
                             const Result& result) {
  const std::int64_t at = std::int64_t{blockIdx.y} * result.num_groups + groups.first_group + group;
  if (result.statistics != nullptr) {
    result.statistics[at] = statistics;
  } else {
    common::write_side_means(statistics, groups.count, __uint_as_float(0x7fc00000u), result.scalers + 2 * at);
  }
}

/// The table entry that contains a tile.
__device__ const Groups& groups_of(const Groups* __restrict__ table, std::int32_t num_entries, std::int64_t tile) {
  int low = 0;
  int high = num_entries;
  while (high - low > 1) {
    const int middle = (low + high) / 2;
    if (table[middle].first_tile <= tile) {
      low = middle;
    } else {
      high = middle;
    }
  }
  return table[low];
}

/// Groups of up to 32 parts, one warp each: missing parts count as zeros, which change no bit.
__global__ void __launch_bounds__(kThreads)
    combine_small_groups_kernel(const SignedStatistics* __restrict__ partials, std::int64_t num_partials,
                                const Groups* __restrict__ table, std::int32_t num_entries, std::int64_t num_tiles,
                                Result result) {
  const std::int64_t index = std::int64_t{blockIdx.x} * kWarps + threadIdx.x / kWarpThreads;
  if (index >= num_tiles) return;  // whole warps
  const Groups groups = groups_of(table, num_entries, index);
  const std::int64_t group = index - groups.first_tile;
  const unsigned lane = threadIdx.x % kWarpThreads;
  SignedStatistics value = {0, 0, 0, 0, 0};
  if (lane < static_cast<unsigned>(groups.num_parts)) {
    value = partials[std::int64_t{blockIdx.y} * num_partials + groups.first_partial + lane * groups.num_groups + group];
  }
  value = warp_combine(value);
  if (lane == 0) write_result(value, groups, group, result);
}

/// Groups of more parts, one block each: thread j holds slot j.
__global__ void __launch_bounds__(kThreads)
    combine_large_groups_kernel(const SignedStatistics* __restrict__ partials, std::int64_t num_partials,
                                const Groups* __restrict__ table, std::int32_t num_entries, Result result) {
  static_assert(kThreads == kStatisticsSlots, "a thread per slot");
  const Groups groups = groups_of(table, num_entries, blockIdx.x);
  const std::int64_t group = blockIdx.x - groups.first_tile;
  const SignedStatistics* parts = partials + std::int64_t{blockIdx.y} * num_partials + groups.first_partial + group;
  SignedStatistics value = {0, 0, 0, 0, 0};
  for (std::int64_t part = threadIdx.x; part < groups.num_parts; part += kThreads) {
    value = combined(value, parts[part * groups.num_groups]);
  }
  __shared__ SignedStatistics slots[kStatisticsSlots];
  value = block_combine(value, slots);
  if (threadIdx.x == 0) write_result(value, groups, group, result);
}

class Runner final : public SignedStatisticsRunner {
 public:
  Runner(std::span<const SignedRun> runs, const Device& device)
      : runs_(runs.begin(), runs.end()),
        sources_table_(device),
        chunks_table_(device),
        columns_table_(device),
        small_table_(device),
        large_table_(device),
        partials_(0, device) {
    for (std::size_t i = 0; i < runs_.size(); ++i) append(runs_[i], static_cast<std::int32_t>(i));
  }

  void statistics(std::span<const TensorTable> workers, SignedStatistics* out, Stream& stream) override {
    run(workers, {out, nullptr, num_groups_}, stream);
  }

  void side_means(std::span<const TensorTable> workers, float* out, Stream& stream) override {
    run(workers, {nullptr, out, num_groups_}, stream);
  }

 private:
  void append(const SignedRun& run, std::int32_t index) {
    const std::int64_t count = run.slice.count;
    if (count == 0) return;
    TERNGRAD_REQUIRE(run.columns <= 0x7fffffff, "[signed statistics] ", run.columns, " columns are too many for a GPU");
    const auto columns = static_cast<std::int32_t>(run.columns);
    const std::int64_t num_groups = std::max<std::int64_t>(1, run.columns);
    const std::int64_t part_elements = columns == 0 ? kChunkElements : run.columns * kColumnBlockRows;
    const std::int64_t num_parts = (count + part_elements - 1) / part_elements;
    for (std::int64_t part = 0; part < num_parts; ++part) {
      const std::int64_t partial = num_partials_ + part * num_groups;
      const std::int64_t first = part * part_elements;
      if (columns == 0) {
        chunks_.push_back({partial, first, index, 0, 0});
        continue;
      }
      for (std::int64_t column = 0; column < columns; column += kThreads) {
        columns_.push_back({partial + column, first, index, columns, column});
      }
    }
    const bool is_small = num_parts <= kWarpParts;
    std::int64_t& num_tiles = is_small ? num_small_ : num_large_;
    (is_small ? small_ : large_)
        .push_back({num_partials_, num_groups_, num_groups, num_tiles, count / num_groups,
                    static_cast<std::int32_t>(num_parts), 0});
    num_tiles += num_groups;
    num_groups_ += num_groups;
    num_partials_ += num_parts * num_groups;
  }

  void run(std::span<const TensorTable> workers, const Result& result, Stream& stream) {
    if (workers.empty() || num_groups_ == 0) return;
    sources_.clear();
    for (const TensorTable& tensors : workers) {
      for (const SignedRun& run : runs_) sources_.push_back({tensors.data(run.slice), run.slice.count});
    }
    const auto rows = static_cast<unsigned>(workers.size());
    grow(partials_, num_partials_ * rows, stream);
    const auto num_runs = static_cast<std::int32_t>(runs_.size());
    const auto num_chunks = static_cast<std::int64_t>(chunks_.size());
    const Source* sources = sources_table_.on_device(sources_, stream);
    const Tile* chunks = chunks_table_.on_device(chunks_, stream);
    const Tile* columns = columns_table_.on_device(columns_, stream);
    with_element(workers.front().type(), [&]<class Element>(Element) {
      launch(signed_chunk_kernel<Element>, dim3(num_blocks_for(num_chunks, kWarps), rows), dim3(kThreads), 0, stream,
             sources, num_runs, chunks, num_chunks, num_partials_, partials_.data());
      launch(column_kernel<Element>, dim3(num_blocks_for(static_cast<std::int64_t>(columns_.size()), 1), rows),
             dim3(kThreads), 0, stream, sources, num_runs, columns, num_partials_, partials_.data());
    });
    launch(combine_small_groups_kernel, dim3(num_blocks_for(num_small_, kWarps), rows), dim3(kThreads), 0, stream,
           partials_.data(), num_partials_, small_table_.on_device(small_, stream),
           static_cast<std::int32_t>(small_.size()), num_small_, result);
    launch(combine_large_groups_kernel, dim3(num_blocks_for(num_large_, 1), rows), dim3(kThreads), 0, stream,
           partials_.data(), num_partials_, large_table_.on_device(large_, stream),
           static_cast<std::int32_t>(large_.size()), result);
  }

  std::vector<SignedRun> runs_;
  std::vector<Tile> chunks_;
  std::vector<Tile> columns_;
  std::vector<Groups> small_;  // up to kWarpParts parts
  std::vector<Groups> large_;
  std::vector<Source> sources_;
  std::int64_t num_groups_ = 0;
  std::int64_t num_partials_ = 0;  // per worker
  std::int64_t num_small_ = 0;     // number of groups
  std::int64_t num_large_ = 0;
  UploadedTable<Source> sources_table_;
  UploadedTable<Tile> chunks_table_;
  UploadedTable<Tile> columns_table_;
  UploadedTable<Groups> small_table_;
  UploadedTable<Groups> large_table_;
  Buffer<SignedStatistics> partials_;  // per worker, part and group
};

}  // namespace

std::shared_ptr<SignedStatisticsRunner> make_signed_statistics_runner(std::span<const SignedRun> runs,
                                                                      const Device& device) {
  return std::make_shared<Runner>(runs, device);
}

}  // namespace terngrad::cuda
