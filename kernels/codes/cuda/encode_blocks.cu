// Block-wise encoding on a GPU: a thread block computes a block's statistics, scaler and codes while the elements are
// in registers (one or two chunks) or in the caches.
#include "kernels/codes/cuda/encode_blocks.h"

#include <cuda_runtime.h>

#include <cstdint>
#include <vector>

#include "kernels/codes/cuda/ternarize_whole.cuh"
#include "kernels/runtime/cuda/launch.cuh"
#include "kernels/runtime/cuda/uploaded_table.h"
#include "kernels/statistics/cuda/staged_chunk.cuh"
#include "kernels/statistics/cuda/statistics_chunk.cuh"
#include "kernels/tensor/cuda/elements.cuh"

namespace terngrad::cuda {
namespace {

constexpr unsigned kThreads = kTernarizeThreads;
static_assert(kThreads == kStatisticsSlots, "thread j combines slot j");
static_assert(kThreads == 2 * kReducingThreads, "the threads of two chunks");

/// Distance between a thread's two runs in a chunk.
constexpr unsigned kSecondRun = kThreads * kRunElements;

/// EncodeBlocksTask in the form for kernels.
struct Job {
  const void* gradient;  // elements of the kernel's element type
  float* scalers;
  std::uint8_t* payload;
  std::int64_t count;
  std::int64_t draw_offset;
  std::int64_t block_elements;
  std::uint64_t worker;
};

/// Block `block` of a job.
struct Tile {
  std::int64_t block;
  std::int64_t job;
};

/// Number of chunks read together: one of float32, two of 16-bit elements, so that a thread has four vector loads in
/// flight.
template <class Element>
constexpr unsigned kGroupChunks = static_cast<unsigned>(sizeof(float) / sizeof(Element));

/// Consecutive chunks of a block in the registers of all threads; a thread has two runs per chunk.
template <class Element>
struct Group {
  RawRun<Element> runs[kGroupChunks<Element>][2];

  /// @param count  remaining elements, possibly beyond the group. Chunks that begin behind them are left unchanged
  __device__ void load(const Element* __restrict__ values, std::int64_t count) {
    const unsigned offset = threadIdx.x * kRunElements;
    const bool is_whole = count >= kGroupChunks<Element> * kChunkElements || count == kChunkElements;
    if (is_whole && is_vector_aligned(values)) {
#pragma unroll
      for (unsigned i = 0; i < 2 * kGroupChunks<Element>; ++i) {
        if (i < 2 || count > kChunkElements) runs[i / 2][i % 2].load(values + i * kSecondRun + offset);
      }
      return;
    }
#pragma unroll
    for (unsigned i = 0; i < 2 * kGroupChunks<Element>; ++i) {
      const unsigned first = i * kSecondRun + offset;
      runs[i / 2][i % 2].load_ragged(values + first, count - first);
    }
  }
};

/// Statistics of a block of elements, by the whole thread block; thread 0 gets them. Loads every element once; warps
/// reduce one group in shared memory while the next is being loaded.
/// @param group  out: the last group
template <class Element>
__device__ Statistics block_statistics(const Element* __restrict__ values, std::int64_t count, Group<Element>& group,
                                       Statistics (&slots)[kStatisticsSlots]) {
  constexpr unsigned kChunks = kGroupChunks<Element>;
  constexpr std::int64_t kGroupElements = kChunks * kChunkElements;
  __shared__ StagedChunk<Element> staged[kChunks];
  __shared__ ChunkPartials partials[kChunks];
  slots[threadIdx.x] = {0, 0, 0, 0};
  const unsigned half = threadIdx.x / kReducingThreads;  // half of the thread block; each reduces one chunk
  for (std::int64_t begin = 0; begin < count + kGroupElements; begin += kGroupElements) {
    if (begin < count) group.load(values + begin, count - begin);
    if (begin > 0) {  // the previous group
      __syncthreads();
      if (half < kChunks) reduce_staged(staged[half], threadIdx.x % kReducingThreads, partials[half]);
      __syncthreads();
      // Done by the first warp of the other half, which is idle if there is only one chunk.
      const std::int64_t chunk = begin / kChunkElements - kChunks + (1 - half);
      if (1 - half < kChunks && chunk * kChunkElements < count && threadIdx.x % kReducingThreads < kWarpThreads) {
        const Statistics of_chunk = combined_partials(partials[1 - half]);
        Statistics& slot = slots[chunk % static_cast<std::int64_t>(kStatisticsSlots)];
        if (threadIdx.x % kWarpThreads == 0) slot = combined(slot, of_chunk);
      }
    }
    if (begin >= count) break;
#pragma unroll
    for (unsigned i = 0; i < 2 * kChunks; ++i) {
      const unsigned first = (i % 2 * kThreads + threadIdx.x) * kRunElements;
      group.runs[i / 2][i % 2].store(staged[i / 2].elements + StagedChunk<Element>::place(first));
    }
  }
  __syncthreads();
  if (count > kWarpThreads * kChunkElements) return block_combine(slots[threadIdx.x], slots);
  // Unused slots hold zeros, which change no bit.
  const Statistics slot = slots[threadIdx.x];
  return count <= kChunkElements || threadIdx.x >= kWarpThreads ? slot : warp_combine(slot);
}

/// Ternarizes a chunk of which a thread has two runs; see chunk_word.
/// @param values  the chunk's `count` elements, read again for ties
/// @param draw_block_of_chunk  Philox block of the first run
template <class Element>
__device__ ThreadWord ternarize_runs(const RawRun<Element> (&runs)[2], const Element* values, std::int64_t count,
                                     const OneScaler& by, const DrawStream& stream, std::uint64_t step,
                                     std::uint32_t worker, std::uint64_t draw_block_of_chunk, std::uint32_t high,
                                     std::uint32_t refine_purpose) {
  std::uint32_t codes[2];
  std::uint32_t least = ~0u;
#pragma unroll
  for (unsigned half = 0; half < 2; ++half) {
    float g[kRunElements];
    runs[half].widen(g);
    const std::uint64_t block = draw_block_of_chunk + half * kTernarizeThreads + threadIdx.x;
    const uint4 draws = draw_block(stream, step, worker, stream.purpose, block);
    codes[half] = ternarize_whole_run(g, by, OwnDraws(), draws, high, least);
  }
  return chunk_word(codes, least, by.scaler, [&](unsigned half) {
    const unsigned first = half * kSecondRun + threadIdx.x * kRunElements;
    return whole_run_ties(values + first, count - first, by.scaler, by.clip, OwnDraws(), stream, step, worker,
                          draw_block_of_chunk + half * kTernarizeThreads + threadIdx.x, high, refine_purpose);
  });
}

// Registers for 4 resident blocks, so that a thread's loads stay in flight together.
template <class Element>
__global__ void __launch_bounds__(kThreads, resident_blocks(4))
    encode_blocks_kernel(const Job* __restrict__ jobs, const Tile* __restrict__ tiles, const DrawStream stream,
                         const std::uint32_t high, const std::uint32_t refine_purpose, const double clip_factor,
                         const ScalerRule rule) {
  constexpr std::int64_t kGroupElements = kGroupChunks<Element> * kChunkElements;
  __shared__ Statistics slots[kStatisticsSlots];
  __shared__ float scaler;
  const Tile tile = tiles[blockIdx.x];
  const Job job = jobs[tile.job];
  const std::int64_t first = tile.block * job.block_elements;
  const std::int64_t count = min(job.block_elements, job.count - first);
  const Element* values = static_cast<const Element*>(job.gradient) + first;
  Group<Element> group;
  const Statistics statistics = block_statistics(values, count, group, slots);
  if (threadIdx.x == 0) {
    scaler = scaler_of(statistics, count, clip_factor, rule);
    job.scalers[tile.block] = scaler;
  }
  __syncthreads();
  const OneScaler by = one_scaler(scaler, __uint_as_float(0x7f800000u));
  const std::uint64_t step = step_of(stream);
  const auto worker = static_cast<std::uint32_t>(job.worker);
  const auto first_draws = static_cast<std::uint64_t>(job.draw_offset + first) / kRunElements;
  auto* words = reinterpret_cast<std::uint32_t*>(job.payload) + first / 16;
  // Backward: the last group is still in registers, and recently read ones are most likely to be in the caches.
  for (std::int64_t begin = (count - 1) / kGroupElements * kGroupElements; begin >= 0; begin -= kGroupElements) {
    const Group<Element> current = group;
    if (begin > 0) group.load(values + begin - kGroupElements, kGroupElements);
#pragma unroll
    for (unsigned i = 0; i < kGroupChunks<Element>; ++i) {
      const std::int64_t at = begin + i * kChunkElements;
      if (at >= count) break;
      const ThreadWord mine =
          ternarize_runs(current.runs[i], values + at, count - at, by, stream, step, worker,
                         first_draws + static_cast<std::uint64_t>(at) / kRunElements, high, refine_purpose);
      if (mine.index * 16 < count - at) __stcg(words + at / 16 + mine.index, mine.word);
    }
  }
}

class Runner final : public EncodeBlocksRunner {
 public:
  explicit Runner(const Device& device) : jobs_table_(device), tiles_table_(device) {}

  void run(std::span<const EncodeBlocksTask> tasks, ElementType type, double clip_factor, ScalerRule rule,
           const DrawKey& key, const std::uint64_t* device_step, Stream& stream) override {
    jobs_.clear();
    tiles_.clear();
    for (const EncodeBlocksTask& task : tasks) {
      const std::int64_t blocks = num_blocks(0, task.count, task.block_elements);
      for (std::int64_t block = 0; block < blocks; ++block) {
        tiles_.push_back({block, static_cast<std::int64_t>(jobs_.size())});
      }
      jobs_.push_back({.gradient = task.gradient,
                       .scalers = task.scalers,
                       .payload = task.payload,
                       .count = task.count,
                       .draw_offset = task.draw_offset,
                       .block_elements = task.block_elements,
                       .worker = task.worker});
    }
    const unsigned grid = num_blocks_for(static_cast<std::int64_t>(tiles_.size()), 1);
    const Job* jobs = jobs_table_.on_device(jobs_, stream);
    const Tile* tiles = tiles_table_.on_device(tiles_, stream);
    with_element(type, [&]<class Element>(Element) {
      launch(encode_blocks_kernel<Element>, dim3(grid), dim3(kThreads), 0, stream, jobs, tiles,
             make_draw_stream(key, device_step), kDrawHigh, static_cast<std::uint32_t>(DrawPurpose::kTernarizeRefine),
             clip_factor, rule);
    });
  }

 private:
  std::vector<Job> jobs_;
  std::vector<Tile> tiles_;
  UploadedTable<Job> jobs_table_;
  UploadedTable<Tile> tiles_table_;
};

}  // namespace

std::shared_ptr<EncodeBlocksRunner> make_encode_blocks_runner(const Device& device) {
  return std::make_shared<Runner>(device);
}

}  // namespace terngrad::cuda
