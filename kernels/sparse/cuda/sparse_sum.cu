// Sums of sparse messages on a GPU: one block holds a chunk of the sum in shared memory and adds the workers' elements
// one worker after another.
#include "kernels/sparse/cuda/sparse_sum.h"

#include <cuda_runtime.h>

#include <bit>
#include <cstdint>
#include <vector>

#include "kernels/runtime/cuda/launch.cuh"
#include "kernels/runtime/cuda/uploaded_table.h"
#include "kernels/sparse/sparse_layout.h"
#include "kernels/sparse/top_k.h"
#include "kernels/tensor/bfloat16.h"
#include "kernels/tensor/cuda/reduce.cuh"
#include "kernels/tensor/slice.h"

namespace terngrad::cuda {
namespace {

constexpr unsigned kThreads = 256;
constexpr unsigned kWarps = kThreads / kWarpThreads;
constexpr int kPlacesPerLane = static_cast<int>(kSparseGroup / kWarpThreads);
static_assert(kPlacesPerLane * kWarpThreads == kSparseGroup, "a warp reads a group");

/// SparseSumTask in the form for kernels.
struct Job {
  float* out;
  std::int64_t count;
  std::int64_t kept;
  std::int64_t first_message;  // index of its first worker's message
  std::int64_t num_messages;
  std::int64_t num_words;  // readable words per message
  std::int64_t block_elements;
  std::int64_t kept_of_block;
  std::int64_t place_bits;
  std::int64_t scale_bits;  // bit pattern of the float32 scale
};

struct Tile {
  std::int32_t job;
  std::int32_t chunk;
};

/// Bounds-safe access to a message, whatever it contains.
struct Reader {
  const std::uint32_t* words;
  std::int64_t num_words;

  __device__ std::uint32_t word(std::int64_t at) const {
    return __ldg(words + min(max(at, std::int64_t{0}), num_words - 1));
  }
  /// Number `index` in a packed sequence of `width`-bit numbers that begins at a word. Always reads two words: no
  /// branch.
  __device__ std::uint32_t bits(std::int64_t first_word, std::int64_t index, unsigned width) const {
    const std::int64_t bit = index * width;
    const std::int64_t at = first_word + (bit >> 5);
    const std::uint32_t shifted = __funnelshift_r(word(at), word(at + 1), static_cast<unsigned>(bit & 31));
    return width >= 32 ? shifted : shifted & ((1u << width) - 1);
  }
  template <bool kBfloat16>
  __device__ float value(std::int64_t first_word, std::int64_t index) const {
    if constexpr (!kBfloat16) return __uint_as_float(word(first_word + index));
    const std::uint32_t pair = word(first_word + index / 2);
    return from_bfloat16(static_cast<std::uint16_t>(index % 2 == 0 ? pair : pair >> 16));
  }

  // For format runs.
  __device__ std::uint32_t first_place(std::int64_t group) const { return word(kRunsHeaderWords + 2 * group); }
  __device__ std::uint32_t widths(std::int64_t group) const { return word(kRunsHeaderWords + 2 * group + 1); }
};

__device__ unsigned width_of(std::uint32_t widths) { return min(widths & ((1u << kRunsWidthBits) - 1), kMaxRunsWidth); }

/// The last group of a message that begins at or before `place`; the first group if there is none.
__device__ std::int64_t group_before(const Reader& message, std::int64_t num_groups, std::int64_t place) {
  std::int64_t begin = 0;
  std::int64_t beyond = num_groups;
  while (beyond - begin > 1) {
    const std::int64_t middle = (begin + beyond) / 2;
    (message.first_place(middle) <= place ? begin : beyond) = middle;
  }
  return begin;
}

/// Adds the elements of a runs message in [first, first + count), one warp per group.
template <bool kBfloat16>
__device__ void add_runs(const Job& job, const Reader& message, std::int64_t first_group, std::int64_t first,
                         std::int64_t count, float* sum) {
  const std::int64_t last = num_sparse_groups(job.kept) - 1;
  const std::uint32_t last_widths = message.widths(last);
  const std::int64_t first_value = first_gap_word(job.kept, last_widths >> kRunsWidthBits) +
                                   words_of_bits(places_of_group(job.kept, last) * width_of(last_widths));
  const unsigned lane = threadIdx.x % kWarpThreads;
  for (std::int64_t group = first_group + threadIdx.x / kWarpThreads; group <= last; group += kWarps) {
    const std::uint32_t base = message.first_place(group);
    if (base >= first + count) break;  // whole warps
    const std::uint32_t widths = message.widths(group);
    const std::int64_t gaps = first_gap_word(job.kept, widths >> kRunsWidthBits);
    const std::int64_t num_places = places_of_group(job.kept, group);
    // Reads are clamped to the message, so all loads of a group can be in flight together.
    std::uint32_t gap[kPlacesPerLane];
    float value[kPlacesPerLane];
    const std::int64_t first_index = static_cast<std::int64_t>(lane) * kPlacesPerLane;
#pragma unroll
    for (int i = 0; i < kPlacesPerLane; ++i) {
      gap[i] = message.bits(gaps, first_index + i, width_of(widths));
      value[i] = message.value<kBfloat16>(first_value, group * kSparseGroup + first_index + i);
    }
    std::uint32_t distances[kPlacesPerLane];  // from the lane's predecessor, the last place of the previous lane
    std::uint32_t own = 0;
#pragma unroll
    for (int i = 0; i < kPlacesPerLane; ++i) {
      own += first_index + i > 0 && first_index + i < num_places ? gap[i] + 1 : 0;
      distances[i] = own;
    }
    std::uint32_t sums = own;
#pragma unroll
    for (unsigned distance = 1; distance < kWarpThreads; distance *= 2) {
      const std::uint32_t before = __shfl_up_sync(kAllLanes, sums, distance);
      if (lane >= distance) sums += before;
    }
    const std::uint32_t before = base + (sums - own);
#pragma unroll
    for (int i = 0; i < kPlacesPerLane; ++i) {
      const std::int64_t at = std::int64_t{before + distances[i]} - first;
      if (first_index + i < num_places && at >= 0 && at < count) sum[at] += value[i];
    }
  }
}

/// The same for a local message, one thread per place.
template <bool kBfloat16>
__device__ void add_local(const Job& job, const Reader& message, std::int64_t first, std::int64_t count, float* sum) {
  const std::int64_t first_value = words_of_bits(job.kept * job.place_bits);
  const std::int64_t first_block = first / job.block_elements;
  const std::int64_t first_entry = first_block * job.kept_of_block;
  const std::int64_t last_block = (first + count - 1) / job.block_elements;
  // The following numbers fit 32 bits: they lie within a chunk, or within a block of at most 65536 elements.
  const auto num_entries =
      static_cast<std::uint32_t>(min((last_block + 1) * job.kept_of_block, job.kept) - first_entry);
  const auto of_block = static_cast<std::uint32_t>(job.kept_of_block);
  const auto before = static_cast<std::int32_t>(first - first_block * job.block_elements);
  const auto place_of = [&](std::uint32_t entry) {
    return static_cast<std::int32_t>(message.bits(0, first_entry + entry, static_cast<unsigned>(job.place_bits)));
  };
  // Places of a block ascend: binary search for the first one within the chunk, if the block begins before it.
  std::uint32_t begin = 0;
  for (std::uint32_t beyond = before > 0 ? min(num_entries, of_block) : 0; begin < beyond;) {
    const std::uint32_t middle = (begin + beyond) / 2;
    if (place_of(middle) < before) {
      begin = middle + 1;
    } else {
      beyond = middle;
    }
  }
  for (std::uint32_t i = begin + threadIdx.x; i < num_entries; i += kThreads) {
    const std::int32_t at =
        static_cast<std::int32_t>(i / of_block * static_cast<std::uint32_t>(job.block_elements)) + place_of(i) - before;
    if (at >= count) break;  // all further places are behind the chunk
    if (at >= 0 && at < count) sum[at] += message.value<kBfloat16>(first_value, first_entry + i);
  }
}

// Registers for 6 resident blocks: launch bounds for 8 would leave too few.
template <bool kLocal, bool kBfloat16>
__global__ void __launch_bounds__(kThreads, resident_blocks(6))
    sparse_sum_kernel(const Job* __restrict__ jobs, const Tile* __restrict__ tiles,
                      const std::uint8_t* const* __restrict__ messages) {
  __shared__ float sum[kChunkElements];
  __shared__ std::int32_t first_groups[kThreads];
  const Tile tile = tiles[blockIdx.x];
  const Job job = jobs[tile.job];
  const std::int64_t first = std::int64_t{tile.chunk} * kChunkElements;
  const std::int64_t count = min(kChunkElements, job.count - first);
  const auto message = [&](std::int64_t worker) {
    return Reader{reinterpret_cast<const std::uint32_t*>(messages[job.first_message + worker]), job.num_words};
  };
  for (std::int64_t i = threadIdx.x; i < count; i += kThreads) sum[i] = 0;
  for (std::int64_t worker = 0; worker < job.num_messages; ++worker) {
    // The search is a chain of dependent loads, so the threads search the messages of many workers at once.
    const auto in_turn = static_cast<unsigned>(worker % kThreads);
    if (!kLocal && in_turn == 0) {
      __syncthreads();
      if (worker + threadIdx.x < job.num_messages) {
        first_groups[threadIdx.x] =
            static_cast<std::int32_t>(group_before(message(worker + threadIdx.x), num_sparse_groups(job.kept), first));
      }
    }
    __syncthreads();
    if constexpr (kLocal) {
      add_local<kBfloat16>(job, message(worker), first, count, sum);
    } else {
      add_runs<kBfloat16>(job, message(worker), first_groups[in_turn], first, count, sum);
    }
  }
  __syncthreads();
  const float scale = __uint_as_float(static_cast<std::uint32_t>(job.scale_bits));
  for (std::int64_t i = threadIdx.x; i < count; i += kThreads) job.out[first + i] = sum[i] * scale;
}

class Runner final : public SparseSumRunner {
 public:
  explicit Runner(const Device& device) : jobs_table_(device), tiles_table_(device), messages_table_(device) {}

  void run(std::span<const SparseSumTask> tasks, Stream& stream) override {
    if (tasks.empty()) return;
    const SparseShape& kind = tasks[0].workers[0].shape;
    jobs_.clear();
    tiles_.clear();
    messages_.clear();
    for (const SparseSumTask& task : tasks) {
      const SparseShape& shape = task.workers[0].shape;
      add(task, shape);
    }
    const dim3 grid(num_blocks_for(static_cast<std::int64_t>(tiles_.size()), 1));
    const Job* jobs = jobs_table_.on_device(jobs_, stream);
    const Tile* tiles = tiles_table_.on_device(tiles_, stream);
    const std::uint8_t* const* messages = messages_table_.on_device(messages_, stream);
    const bool is_bf16 = kind.values == SparseValues::kBfloat16;
    const auto run = [&](auto kernel) { launch(kernel, grid, dim3(kThreads), 0, stream, jobs, tiles, messages); };
    if (kind.format == SparseFormat::kLocal) {
      run(is_bf16 ? sparse_sum_kernel<true, true> : sparse_sum_kernel<true, false>);
    } else {
      run(is_bf16 ? sparse_sum_kernel<false, true> : sparse_sum_kernel<false, false>);
    }
  }

 private:
  void add(const SparseSumTask& task, const SparseShape& shape) {
    const bool is_local = shape.format == SparseFormat::kLocal;
    for (std::int64_t begin = 0; begin < shape.num_elements; begin += kChunkElements) {
      tiles_.push_back({static_cast<std::int32_t>(jobs_.size()), static_cast<std::int32_t>(begin / kChunkElements)});
    }
    jobs_.push_back({.out = task.out,
                     .count = shape.num_elements,
                     .kept = num_kept(shape),
                     .first_message = static_cast<std::int64_t>(messages_.size()),
                     .num_messages = static_cast<std::int64_t>(task.workers.size()),
                     .num_words = max_sparse_bytes(shape) / 4,
                     .block_elements = shape.block_elements,
                     .kept_of_block = is_local ? top_k_count(shape.block_elements, shape.density) : 0,
                     .place_bits = is_local ? std::countr_zero(static_cast<std::uint64_t>(shape.block_elements)) : 0,
                     .scale_bits = std::bit_cast<std::uint32_t>(task.scale)});
    for (const SparseMessage& worker : task.workers) messages_.push_back(worker.payload.data());
  }

  std::vector<Job> jobs_;
  std::vector<Tile> tiles_;
  std::vector<const std::uint8_t*> messages_;
  UploadedTable<Job> jobs_table_;
  UploadedTable<Tile> tiles_table_;
  UploadedTable<const std::uint8_t*> messages_table_;
};

}  // namespace

std::shared_ptr<SparseSumRunner> make_sparse_sum_runner(const Device& device) {
  return std::make_shared<Runner>(device);
}

}  // namespace terngrad::cuda
