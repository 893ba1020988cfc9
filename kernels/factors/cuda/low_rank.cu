// Products with thin factors on a GPU. A half warp holds the 16 lanes of a sum along a row; a thread handles one column
// and one of its slots. For a rank of 4 or less the matrix is read once.
#include "kernels/factors/cuda/low_rank.h"

#include <cuda_runtime.h>

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <utility>
#include <vector>

#include "kernels/factors/sum_order.h"
#include "kernels/runtime/buffer.h"
#include "kernels/runtime/cuda/grow.h"
#include "kernels/runtime/cuda/launch.cuh"
#include "kernels/runtime/cuda/uploaded_table.h"
#include "kernels/runtime/errors.h"
#include "kernels/tensor/cuda/reduce.cuh"
#include "kernels/tensor/slice.h"

namespace terngrad::cuda {
namespace {

constexpr unsigned kThreads = 256;
constexpr int kLanes = static_cast<int>(kFactorLanes);
constexpr int kGroup = 4;  // columns of a factor per pass
constexpr int kRowsAtOnce = 2;
constexpr std::int64_t kRowsPerBlock = std::int64_t{kThreads} / kLanes * kRowsAtOnce;
constexpr unsigned kColumnThreads = 128;
#if defined(__CUDA_ARCH__) && __CUDA_ARCH__ < 800
constexpr int kColumnBlocks = 4;  // resident blocks; with its own choice the compiler spills registers
#else
constexpr int kColumnBlocks = 0;  // the compiler's choice
#endif
constexpr double kMaxDouble = 0x1.fffffffffffffp1023;
constexpr unsigned kOrthonormalThreads = 512;
constexpr std::int64_t kSlotNumbers = std::int64_t{1} << 22;  // 32 MiB of sums
constexpr std::int64_t kChunksAtOnce = std::int64_t{kOrthonormalThreads} / kLanes;

/// FactorTask and LowRankTask in the form for kernels.
struct Job {
  const float* values;  // the matrix; for write_products `from`
  float* p;
  float* q;
  const float* flag;
  float* out;
  double* slots;  // column sums: [slots][rank][columns]
  std::int64_t rows;
  std::int64_t columns;
  std::int64_t rank;
};

struct Tile {
  std::int32_t job;
  std::int32_t index;
};

/// Sum of 16 lanes; the first of them gets it.
__device__ double sum_of_lanes(double value) {
#pragma unroll
  for (int half = kLanes / 2; half > 0; half /= 2) {
    value += __shfl_down_sync(kAllLanes, value, static_cast<unsigned>(half), kLanes);
  }
  return value;
}

/// Computes kRowsAtOnce rows of M times kColumns columns of Q, by a half warp.
/// @param num_rows     existing rows; 0 for half warps without rows, which take part because shuffles need all lanes
/// @param num_columns  existing columns of Q, from 1 to kColumns
template <int kColumns>
__device__ void sum_rows(const float* values, int num_rows, std::int64_t columns, const float* q, int num_columns,
                         float* p, std::int64_t rows) {
  const int lane = static_cast<int>(threadIdx.x) % kLanes;
  double totals[std::size_t{kRowsAtOnce}][std::size_t{kColumns}] = {};
  for (std::int64_t chunk = 0; chunk < columns; chunk += kChunkElements) {
    const std::int64_t end = min(columns, chunk + kChunkElements);
    double sums[std::size_t{kRowsAtOnce}][std::size_t{kColumns}] = {};
#pragma unroll 4
    for (std::int64_t c = chunk + lane; c < end; c += kLanes) {
      double factors[std::size_t{kColumns}];
#pragma unroll
      for (int j = 0; j < kColumns; ++j)
        factors[j] = static_cast<double>(__ldg(q + min(j, num_columns - 1) * columns + c));
#pragma unroll
      for (int row = 0; row < kRowsAtOnce; ++row) {
        const auto value = static_cast<double>(__ldg(values + min(row, max(num_rows, 1) - 1) * columns + c));
        // The product is exact, so fusing changes no bit.
#pragma unroll
        for (int j = 0; j < kColumns; ++j) sums[row][j] = __fma_rn(value, factors[j], sums[row][j]);
      }
    }
#pragma unroll
    for (int row = 0; row < kRowsAtOnce; ++row) {
#pragma unroll
      for (int j = 0; j < kColumns; ++j) totals[row][j] += sum_of_lanes(sums[row][j]);
    }
  }
  if (lane != 0) return;
#pragma unroll
  for (int row = 0; row < kRowsAtOnce; ++row) {
#pragma unroll
    for (int j = 0; j < kColumns; ++j) {
      if (row < num_rows && j < num_columns) p[j * rows + row] = static_cast<float>(totals[row][j]);
    }
  }
}

__global__ void __launch_bounds__(kThreads)
    low_rank_columns_kernel(const Job* __restrict__ jobs, const Tile* __restrict__ tiles) {
  const Tile tile = tiles[blockIdx.x];
  const Job job = jobs[tile.job];
  const std::int64_t wanted = tile.index * kRowsPerBlock + threadIdx.x / kLanes * kRowsAtOnce;
  const std::int64_t first = min(wanted, job.rows - 1);
  const int num_rows = static_cast<int>(max(min(job.rows - wanted, std::int64_t{kRowsAtOnce}), std::int64_t{0}));
  const float* values = job.values + first * job.columns;
  for (int j = 0; j < job.rank; j += kGroup) {
    const int left = min(static_cast<int>(job.rank) - j, kGroup);
    const float* q = job.q + j * job.columns;
    float* p = job.p + j * job.rows + first;
    if (left == 1) {
      sum_rows<1>(values, num_rows, job.columns, q, left, p, job.rows);
    } else if (left == 2) {
      sum_rows<2>(values, num_rows, job.columns, q, left, p, job.rows);
    } else {
      sum_rows<kGroup>(values, num_rows, job.columns, q, left, p, job.rows);
    }
  }
}

/// Adds the sum over a block of rows of a column of M, for kColumns columns of P, to the thread's slot.
/// @param p  in float64
/// @param is_first  true for the slot's first block
template <int kColumns>
__device__ void add_block(const float* values, std::int64_t columns, int num_rows, const double (*p)[kFactorBlockRows],
                          bool is_first, double* slots) {
  double sums[std::size_t{kColumns}] = {};
#pragma unroll 4
  for (int row = 0; row < num_rows; ++row) {
    const auto value = static_cast<double>(__ldg(values + row * columns));
#pragma unroll
    for (int j = 0; j < kColumns; ++j) sums[j] = __fma_rn(value, p[j][row], sums[j]);
  }
#pragma unroll
  for (int j = 0; j < kColumns; ++j) {
    slots[j * columns] = is_first ? sums[j] : slots[j * columns] + sums[j];
  }
}

/// One block per kColumnThreads columns and slot.
__global__ void __launch_bounds__(kColumnThreads, kColumnBlocks)
    low_rank_slots_kernel(const Job* __restrict__ jobs, const Tile* __restrict__ tiles) {
  __shared__ double wide_p[std::size_t{kGroup}][kFactorBlockRows];
  const Tile tile = tiles[blockIdx.x];
  const Job job = jobs[tile.job];
  const std::int64_t num_blocks = (job.rows + kFactorBlockRows - 1) / kFactorBlockRows;
  const auto num_slots = static_cast<int>(min(num_blocks, kFactorSlots));
  const std::int64_t slot = tile.index % num_slots;
  const std::int64_t column = std::int64_t{tile.index / num_slots} * kColumnThreads + threadIdx.x;
  for (std::int64_t block = slot; block < num_blocks; block += kFactorSlots) {
    const std::int64_t first = block * kFactorBlockRows;
    const int count = static_cast<int>(min(kFactorBlockRows, job.rows - first));
    const float* values = job.values + first * job.columns + column;
    for (int j = 0; j < job.rank; j += kGroup) {
      const int left = min(static_cast<int>(job.rank) - j, kGroup);
      __syncthreads();  // wide_p of the previous iteration has been read
      for (int i = static_cast<int>(threadIdx.x); i < kGroup * count; i += static_cast<int>(kColumnThreads)) {
        const int k = i / count;
        const int row = i % count;
        if (k < left) wide_p[k][row] = static_cast<double>(job.p[(j + k) * job.rows + first + row]);
      }
      __syncthreads();
      if (column >= job.columns) continue;
      double* slots = job.slots + (slot * job.rank + j) * job.columns + column;
      const bool is_first = block == slot;
      if (left == 1) {
        add_block<1>(values, job.columns, count, wide_p, is_first, slots);
      } else if (left == 2) {
        add_block<2>(values, job.columns, count, wide_p, is_first, slots);
      } else if (left == 3) {
        add_block<3>(values, job.columns, count, wide_p, is_first, slots);
      } else {
        add_block<kGroup>(values, job.columns, count, wide_p, is_first, slots);
      }
    }
  }
}

/// Each thread reduces the slots of one element of Q, adding slot j + half to slot j for halves 128, 64, ..., 1. It
/// walks the tree depth-first: the leaves come in bit-reversed order. Slots without a block count as +0, which changes
/// no sum that begins with +0.
__global__ void __launch_bounds__(kThreads)
    low_rank_tree_kernel(const Job* __restrict__ jobs, const Tile* __restrict__ tiles) {
  constexpr int kLevels = 8;
  static_assert(kFactorSlots == 1 << kLevels);
  const Tile tile = tiles[blockIdx.x];
  const Job job = jobs[tile.job];
  const std::int64_t num_factors = job.rank * job.columns;
  const std::int64_t index = std::int64_t{tile.index} * kThreads + threadIdx.x;
  if (index >= num_factors) return;
  const auto num_slots = static_cast<unsigned>(min((job.rows + kFactorBlockRows - 1) / kFactorBlockRows, kFactorSlots));
  int levels = 0;
  while (1u << levels < num_slots) ++levels;
  // sums[i] holds the sum of 2^i leaves if bit i of `done` is set.
  double sums[std::size_t{kLevels}] = {};
  double sum = 0;
  for (unsigned done = 0; done < 1u << levels; ++done) {
    const unsigned slot = levels == 0 ? 0 : __brev(done) >> (32 - levels);
    sum = slot < num_slots ? job.slots[slot * num_factors + index] : 0.0;
    bool is_open = true;  // all bits below are set
#pragma unroll
    for (int level = 0; level < kLevels; ++level) {
      const bool is_right = (done >> level & 1) != 0;
      if (is_open && is_right) sum = sums[level] + sum;
      if (is_open && !is_right) sums[level] = sum;
      is_open = is_open && is_right;
    }
  }
  job.q[index] = static_cast<float>(sum);
}

/// Dot product of two columns of a factor; all threads of the block get it.
__device__ double sum_of_products(const float* a, const float* b, std::int64_t count, double* chunk_sums) {
  double total = 0;
  const std::int64_t num_chunks = (count + kChunkElements - 1) / kChunkElements;
  for (std::int64_t first = 0; first < num_chunks; first += kChunksAtOnce) {
    const std::int64_t chunk = first + threadIdx.x / kLanes;
    const std::int64_t end = min(count, (chunk + 1) * kChunkElements);
    double sum = 0;
    for (std::int64_t i = chunk * kChunkElements + threadIdx.x % kLanes; i < end; i += kLanes) {
      sum = __fma_rn(static_cast<double>(a[i]), static_cast<double>(b[i]), sum);
    }
    sum = sum_of_lanes(sum);
    __syncthreads();  // the previous chunk sums have been read
    if (threadIdx.x % kLanes == 0) chunk_sums[threadIdx.x / kLanes] = sum;
    __syncthreads();
    const std::int64_t last = min(num_chunks - first, kChunksAtOnce);
    for (std::int64_t i = 0; i < last; ++i) total += chunk_sums[i];
  }
  return total;
}

/// One block per factor. It processes columns one after another, the elements of a column in parallel.
__global__ void __launch_bounds__(kOrthonormalThreads, resident_blocks(2))
    low_rank_orthonormal_kernel(const Job* __restrict__ jobs) {
  __shared__ double chunk_sums[std::size_t{kChunksAtOnce}];
  const Job job = jobs[blockIdx.x];
  for (int pass = 0; pass < 2; ++pass) {
    for (std::int64_t j = 0; j < job.rank; ++j) {
      float* own = job.p + j * job.rows;
      const double before = __dsqrt_rn(sum_of_products(own, own, job.rows, chunk_sums));
      for (std::int64_t i = 0; i < j; ++i) {
        const float* other = job.p + i * job.rows;
        const double c = sum_of_products(other, own, job.rows, chunk_sums);
        for (std::int64_t row = threadIdx.x; row < job.rows; row += kOrthonormalThreads) {
          own[row] = static_cast<float>(static_cast<double>(own[row]) - c * static_cast<double>(other[row]));
        }
        __syncthreads();
      }
      const double norm = __dsqrt_rn(sum_of_products(own, own, job.rows, chunk_sums));
      // False for NaN, so that NaN becomes zeros too.
      const bool is_kept = norm > before * kSmallestNormRatio && norm <= kMaxDouble;
      for (std::int64_t row = threadIdx.x; row < job.rows; row += kOrthonormalThreads) {
        own[row] = is_kept ? static_cast<float>(__ddiv_rn(static_cast<double>(own[row]), norm)) : 0.0f;
      }
      __syncthreads();
    }
  }
}

/// One block per chunk of elements of a product.
__global__ void __launch_bounds__(kThreads)
    low_rank_product_kernel(const Job* __restrict__ jobs, const Tile* __restrict__ tiles,
                            const std::uint32_t* __restrict__ skip) {
  if (skip != nullptr && *skip != 0) return;
  const Tile tile = tiles[blockIdx.x];
  const Job job = jobs[tile.job];
  if (job.flag != nullptr && *job.flag != *job.flag) return;
  const std::int64_t first = tile.index * kChunkElements;
  const auto count = static_cast<unsigned>(min(kChunkElements, job.rows * job.columns - first));
  const std::int64_t first_row = first / job.columns;
  // If rows are longer than a chunk, a chunk crosses at most one row boundary, so 32 bits suffice.
  const auto first_column = static_cast<std::uint32_t>(first - first_row * job.columns);
  const auto columns = static_cast<std::uint32_t>(job.columns);
  for (unsigned i = threadIdx.x; i < count; i += kThreads) {
    const std::uint32_t at = first_column + i;
    const std::int64_t row = first_row + at / columns;
    const std::int64_t column = at % columns;
    double sum = 0;
    for (std::int64_t j = 0; j < job.rank; ++j) {
      sum = __fma_rn(static_cast<double>(job.p[j * job.rows + row]),
                     static_cast<double>(job.q[j * job.columns + column]), sum);
    }
    const auto product = static_cast<float>(sum);
    job.out[first + i] = job.values == nullptr ? product : job.values[first + i] - product;
  }
}

/// Jobs of one function, and the tiles that its blocks process.
class Table {
 public:
  explicit Table(const Device& device) : jobs_table_(device), tiles_table_(device) {}

  void clear() {
    jobs_.clear();
    tiles_.clear();
  }
  void add(const Job& job, std::int64_t num_tiles) {
    TERNGRAD_REQUIRE(num_tiles <= 0x7fffffff, "[low_rank] a matrix of ", job.rows, " x ", job.columns, " is too large");
    for (std::int64_t tile = 0; tile < num_tiles; ++tile) {
      tiles_.push_back({static_cast<std::int32_t>(jobs_.size()), static_cast<std::int32_t>(tile)});
    }
    jobs_.push_back(job);
  }

  std::int64_t num_tiles() const { return static_cast<std::int64_t>(tiles_.size()); }

  /// Launches tiles [first, end).
  template <class Kernel, class... Rest>
  void launch_some(Kernel kernel, unsigned threads, std::int64_t first, std::int64_t end, Stream& stream,
                   Rest... rest) {
    const Job* jobs = jobs_table_.on_device(jobs_, stream);
    const Tile* tiles = tiles_table_.on_device(tiles_, stream);
    launch(kernel, dim3(num_blocks_for(end - first, 1)), dim3(threads), 0, stream, jobs, tiles + first, rest...);
  }
  template <class Kernel, class... Rest>
  void launch_tiles(Kernel kernel, unsigned threads, Stream& stream, Rest... rest) {
    launch_some(kernel, threads, 0, num_tiles(), stream, rest...);
  }
  template <class Kernel>
  void launch_jobs(Kernel kernel, unsigned threads, Stream& stream) {
    const Job* jobs = jobs_table_.on_device(jobs_, stream);
    launch(kernel, dim3(static_cast<unsigned>(jobs_.size())), dim3(threads), 0, stream, jobs);
  }

 private:
  std::vector<Job> jobs_;
  std::vector<Tile> tiles_;
  UploadedTable<Job> jobs_table_;
  UploadedTable<Tile> tiles_table_;
};

std::int64_t tiles_of(std::int64_t items, std::int64_t per_tile) { return (items + per_tile - 1) / per_tile; }

class Runner final : public LowRankRunner {
 public:
  explicit Runner(const Device& device)
      : columns_(device), slots_(device), trees_(device), orthonormal_(device), products_(device), memory_(0, device) {}

  void times_columns(std::span<const FactorTask> tasks, Stream& stream) override {
    columns_.clear();
    for (const FactorTask& task : tasks) columns_.add(job_of(task), tiles_of(task.m.rows, kRowsPerBlock));
    columns_.launch_tiles(low_rank_columns_kernel, kThreads, stream);
  }

  /// Matrices are processed in groups whose slot sums fit kSlotNumbers (a larger matrix alone), one group after another
  /// in the same memory.
  void times_rows(std::span<const FactorTask> tasks, Stream& stream) override {
    std::int64_t needed = 0;
    for (std::size_t i = 0, next = 0; i < tasks.size(); i = next) needed = std::max(needed, group(tasks, i, next));
    grow(memory_, needed, stream);
    slots_.clear();
    trees_.clear();
    ends_.clear();
    for (std::size_t i = 0, next = 0; i < tasks.size(); i = next) {
      group(tasks, i, next);
      double* at = memory_.data();
      for (const FactorTask& task : tasks.subspan(i, next - i)) {
        Job job = job_of(task);
        job.slots = at;
        slots_.add(job, num_slots(task) * tiles_of(task.m.columns, kColumnThreads));
        trees_.add(job, tiles_of(task.rank * task.m.columns, kThreads));
        at += slot_numbers(task);
      }
      ends_.push_back({slots_.num_tiles(), trees_.num_tiles()});
    }
    std::pair<std::int64_t, std::int64_t> begin = {0, 0};
    for (const auto& end : ends_) {
      slots_.launch_some(low_rank_slots_kernel, kColumnThreads, begin.first, end.first, stream);
      trees_.launch_some(low_rank_tree_kernel, kThreads, begin.second, end.second, stream);
      begin = end;
    }
  }

  void orthonormalize(std::span<const FactorTask> tasks, Stream& stream) override {
    orthonormal_.clear();
    for (const FactorTask& task : tasks) orthonormal_.add(job_of(task), 0);
    orthonormal_.launch_jobs(low_rank_orthonormal_kernel, kOrthonormalThreads, stream);
  }

  void write_products(std::span<const LowRankTask> tasks, const std::uint32_t* skip, Stream& stream) override {
    products_.clear();
    for (const LowRankTask& task : tasks) {
      TERNGRAD_REQUIRE(task.sizes.columns <= 0x7fffffff, "[low_rank] rows of ", task.sizes.columns,
                       " elements are too long for a GPU");
      const Job job{.values = task.from,
                    .p = const_cast<float*>(task.p),  // only read, like q
                    .q = const_cast<float*>(task.q),
                    .flag = task.flag,
                    .out = task.out,
                    .slots = nullptr,
                    .rows = task.sizes.rows,
                    .columns = task.sizes.columns,
                    .rank = task.sizes.rank};
      products_.add(job, tiles_of(task.sizes.rows * task.sizes.columns, kChunkElements));
    }
    products_.launch_tiles(low_rank_product_kernel, kThreads, stream, skip);
  }

 private:
  static Job job_of(const FactorTask& task) {
    return {.values = task.m.values,
            .p = task.p,
            .q = task.q,
            .flag = nullptr,
            .out = nullptr,
            .slots = nullptr,
            .rows = task.m.rows,
            .columns = task.m.columns,
            .rank = task.rank};
  }
  /// @param next  out: first task after the group that begins with task `i`
  /// @returns number of slot sums of the group
  static std::int64_t group(std::span<const FactorTask> tasks, std::size_t i, std::size_t& next) {
    std::int64_t needed = 0;
    for (next = i; next < tasks.size(); ++next) {
      const std::int64_t own = slot_numbers(tasks[next]);
      if (next > i && needed + own > kSlotNumbers) break;
      needed += own;
    }
    return needed;
  }
  static std::int64_t num_slots(const FactorTask& task) {
    return std::min(tiles_of(task.m.rows, kFactorBlockRows), std::int64_t{kFactorSlots});
  }
  static std::int64_t slot_numbers(const FactorTask& task) { return num_slots(task) * task.rank * task.m.columns; }

  Table columns_, slots_, trees_, orthonormal_, products_;
  std::vector<std::pair<std::int64_t, std::int64_t>> ends_;  // end of each group in the tiles of slots_ and trees_
  Buffer<double> memory_;                                    // slot sums
};

}  // namespace

std::shared_ptr<LowRankRunner> make_low_rank_runner(const Device& device) { return std::make_shared<Runner>(device); }

}  // namespace terngrad::cuda
