// Votes on a GPU: one block per chunk. For bits, a thread counts 32 elements over all payloads in bit-sliced counters.
// Results go through shared memory, so that neighboring threads scale and store neighboring elements.
#include "kernels/codes/cuda/votes.h"

#include <cuda_runtime.h>

#include <array>
#include <cstdint>
#include <vector>

#include "kernels/codes/cuda/codes.cuh"
#include "kernels/codes/cuda/tasks.cuh"
#include "kernels/codes/lanes.h"
#include "kernels/runtime/cuda/launch.cuh"
#include "kernels/runtime/cuda/uploaded_table.h"

namespace terngrad::cuda {
namespace {

constexpr unsigned kThreads = 128;
constexpr unsigned kWordsOfBits = static_cast<unsigned>(kChunkElements) / 32;
static_assert(kThreads == kWordsOfBits, "a thread counts a word of bits");
/// Groups of four elements that a thread stores per chunk.
constexpr unsigned kGroupsPerThread = static_cast<unsigned>(kChunkElements) / 4 / kThreads;
/// Number of payloads whose words are loaded before the first is counted.
constexpr int kBatch = 8;

struct Task {
  std::int64_t first_tile;
  std::int64_t count;
  const float* scales;
  float* out;
  BlockUnits units;
  std::int32_t first_payload;
  std::int32_t num_payloads;
  std::int32_t num_workers;
  std::int32_t lane_bits;  // lanes only
};

/// Scales and stores the votes of a chunk.
struct VoteStore {
  std::int64_t begin;  // offset of the chunk
  unsigned count;
  TileBlocks blocks;
  const float* __restrict__ scales;
  float* out;
  bool is_aligned;

  __device__ VoteStore(const Task& task, std::int64_t chunk)
      : begin(chunk * kChunkElements),
        count(static_cast<unsigned>(min(kChunkElements, task.count - begin))),
        blocks(task.units, static_cast<std::uint32_t>(begin / kMinBlockElements)),
        scales(task.scales),
        out(task.out + begin),
        is_aligned(reinterpret_cast<std::uintptr_t>(out) % sizeof(float4) == 0) {}

  /// Stores elements [first, first + 4). @param vote  function that returns -1, 0 or 1 for an index from 0 to 3
  template <class Vote>
  __device__ void store(unsigned first, const Vote& vote) const {
    const float scale = __ldg(scales + blocks.of(first));
    const auto scaled = [&](unsigned place) { return with_canonical_nan(scale * vote(place)); };
    store_group(out, first, count, is_aligned, make_float4(scaled(0), scaled(1), scaled(2), scaled(3)));
  }
};

/// Bit-sliced counters of 32 elements: plane p holds bit p of each.
template <unsigned kPlanes>
struct Counters {
  std::uint32_t plane[kPlanes] = {};

  __device__ void add(std::uint32_t carry) {
#pragma unroll
    for (std::uint32_t& bits : plane) {
      const std::uint32_t sum = bits ^ carry;
      carry &= bits;
      bits = sum;
    }
  }

  /// Compares counts with `half`, from the highest bit down: masks of counts above it (x) and equal to it (y).
  __device__ uint2 compared(unsigned half) const {
    std::uint32_t above = 0;
    std::uint32_t same = ~0u;
#pragma unroll
    for (unsigned p = kPlanes; p-- > 0;) {
      const std::uint32_t wanted = (half >> p & 1u) != 0 ? ~0u : 0u;
      above |= same & plane[p] & ~wanted;
      same &= ~(plane[p] ^ wanted);
    }
    return {above, same};
  }
};

/// @tparam kPlanes  number of bits of the number of workers, or more
template <unsigned kPlanes>
__global__ void __launch_bounds__(kThreads) vote_bits_kernel(const Task* __restrict__ tasks, std::int32_t num_tasks,
                                                             const std::uint32_t* const* __restrict__ payloads) {
  const Task& task = tasks[find_task(tasks, num_tasks, blockIdx.x)];
  const std::int64_t chunk = blockIdx.x - task.first_tile;
  const std::uint32_t* const* of_task = payloads + task.first_payload;
  // Missing words and payloads are read as the last existing one, so that no branch separates the loads.
  const std::int64_t word = min(chunk * kWordsOfBits + threadIdx.x, (task.count - 1) / 32);
  Counters<kPlanes> counters;
  for (int first = 0; first < task.num_payloads; first += kBatch) {
    std::uint32_t words[kBatch];
#pragma unroll
    for (int k = 0; k < kBatch; ++k) words[k] = __ldg(of_task[min(first + k, task.num_payloads - 1)] + word);
#pragma unroll
    for (int k = 0; k < kBatch; ++k) counters.add(first + k < task.num_payloads ? words[k] : 0);
  }
  uint2 votes = counters.compared(static_cast<unsigned>(task.num_workers) / 2);
  if (task.num_workers % 2 != 0) votes.y = 0;
  __shared__ uint2 staged[kWordsOfBits];
  staged[threadIdx.x] = votes;
  __syncthreads();

  const VoteStore store(task, chunk);
#pragma unroll
  for (unsigned i = 0; i < kGroupsPerThread; ++i) {
    const unsigned element = 4 * (i * kThreads + threadIdx.x);
    if (element >= store.count) break;
    const uint2 bits = staged[element / 32];
    const unsigned shift = element % 32;
    store.store(element, [&](unsigned place) {
      const bool is_negative = (bits.x >> (shift + place) & 1u) != 0;
      const bool is_tied = (bits.y >> (shift + place) & 1u) != 0;
      return is_tied ? 0.0f : is_negative ? -1.0f : 1.0f;
    });
  }
}

/// Lanes of one level, which hold counts already.
__global__ void __launch_bounds__(kThreads) vote_lanes_kernel(const Task* __restrict__ tasks, std::int32_t num_tasks,
                                                              const std::uint32_t* const* __restrict__ payloads) {
  const Task& task = tasks[find_task(tasks, num_tasks, blockIdx.x)];
  const std::int64_t chunk = blockIdx.x - task.first_tile;
  const std::uint32_t* const* of_task = payloads + task.first_payload;
  const LaneReader reader(task.count, chunk, task.lane_bits);
  const VoteStore store(task, chunk);
#pragma unroll
  for (unsigned i = 0; i < kGroupsPerThread; ++i) {
    const unsigned element = 4 * (i * kThreads + threadIdx.x);
    if (element >= store.count) break;
    int counts[4] = {0, 0, 0, 0};
    for (int k = 0; k < task.num_payloads; ++k) {
      reader.add_group(reinterpret_cast<const std::uint64_t*>(of_task[k]), element, counts);
    }
    const int num_workers = task.num_workers;
    store.store(element, [&](unsigned place) {
      const int majority = num_workers - 2 * counts[place];
      return majority < 0 ? -1.0f : majority > 0 ? 1.0f : 0.0f;
    });
  }
}

using Kernel = void (*)(const Task*, std::int32_t, const std::uint32_t* const*);
/// Kernels for lanes, for bits of up to 15 workers, and for bits of any number of workers.
constexpr std::array<Kernel, 3> kKernels = {vote_lanes_kernel, vote_bits_kernel<4>, vote_bits_kernel<14>};
static_assert(kMaxSummedWorkers < 1 << 14, "14 planes count all workers");

std::size_t kind_of(const CodeSumTask& task) {
  return task.format == CodeFormat::kLanes ? 0 : task.num_workers < 16 ? 1 : 2;
}

class Runner final : public VoteRunner {
 public:
  explicit Runner(const Device& device) : tasks_table_(device), payloads_table_(device) {}

  void run(std::span<const CodeSumTask> tasks, Stream& stream) override {
    tasks_.clear();
    payloads_.clear();
    std::array<std::size_t, kKernels.size() + 1> first_task{};
    std::array<std::int64_t, kKernels.size()> num_tiles{};
    for (std::size_t kind = 0; kind < kKernels.size(); ++kind) {
      for (const CodeSumTask& task : tasks) {
        if (kind_of(task) == kind && task.count > 0) num_tiles[kind] += append(task, num_tiles[kind]);
      }
      first_task[kind + 1] = tasks_.size();
    }
    const Task* on_device = tasks_table_.on_device(tasks_, stream);
    const std::uint32_t* const* payloads = payloads_table_.on_device(payloads_, stream);
    for (std::size_t kind = 0; kind < kKernels.size(); ++kind) {
      const auto count = static_cast<std::int32_t>(first_task[kind + 1] - first_task[kind]);
      launch(kKernels[kind], dim3(num_blocks_for(num_tiles[kind], 1)), dim3(kThreads), 0, stream,
             on_device + first_task[kind], count, payloads);
    }
  }

 private:
  /// @returns the number of tiles
  std::int64_t append(const CodeSumTask& task, std::int64_t first_tile) {
    tasks_.push_back({first_tile, task.count, task.scales, task.out,
                      block_units(task.first, task.count, task.block_elements),
                      static_cast<std::int32_t>(payloads_.size()), static_cast<std::int32_t>(task.payloads.size()),
                      task.num_workers, task.format == CodeFormat::kLanes ? lane_bits(task.num_workers, 1) : 0});
    for (const std::uint8_t* payload : task.payloads) {
      payloads_.push_back(reinterpret_cast<const std::uint32_t*>(payload));
    }
    return (task.count + kChunkElements - 1) / kChunkElements;
  }

  std::vector<Task> tasks_;  // ordered by kind
  std::vector<const std::uint32_t*> payloads_;
  UploadedTable<Task> tasks_table_;
  UploadedTable<const std::uint32_t*> payloads_table_;
};

}  // namespace

std::shared_ptr<VoteRunner> make_vote_runner(const Device& device) { return std::make_shared<Runner>(device); }

}  // namespace terngrad::cuda
