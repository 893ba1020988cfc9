// Encode blocks on a GPU: a thread block takes a block's statistics, makes its scaler and draws its codes, while the
// block is in the caches.
#include "kernels/codes/cuda/encode_blocks.h"

#include <cuda_runtime.h>

#include <cstdint>
#include <vector>

#include "kernels/codes/cuda/ternarize_chunk.cuh"
#include "kernels/runtime/cuda/launch.cuh"
#include "kernels/runtime/cuda/uploaded_table.h"
#include "kernels/statistics/cuda/statistics_chunk.cuh"
#include "kernels/tensor/cuda/elements.cuh"

namespace terngrad::cuda {
namespace {

constexpr unsigned kThreads = kTernarizeThreads;
constexpr unsigned kWarps = kThreads / kWarpThreads;
constexpr int kVectorsInFlight = 4;  // more would take registers for which a fourth block of threads would not run
static_assert(kThreads == kStatisticsSlots, "thread j combines slot j");
static_assert(kStatisticsSlots % kWarps == 0, "all chunks of a slot belong to one warp, which takes them in order");

/// EncodeBlocksTask as kernels read it.
struct Job {
  TernarizeJob ternarize;
  float* scalers;
};

/// Statistics of a block of elements by the whole thread block; thread 0 gets them.
template <class Element>
__device__ Statistics block_statistics(const Element* __restrict__ values, std::int64_t count,
                                       Statistics (&slots)[kStatisticsSlots]) {
  slots[threadIdx.x] = {0, 0, 0, 0};
  __syncthreads();
  const std::int64_t num_chunks = (count + kChunkElements - 1) / kChunkElements;
  for (std::int64_t chunk = threadIdx.x / kWarpThreads; chunk < num_chunks; chunk += kWarps) {
    const std::int64_t begin = chunk * kChunkElements;
    const Statistics of_chunk =
        warp_chunk_statistics<kVectorsInFlight>(values + begin, min(kChunkElements, count - begin));
    Statistics& slot = slots[chunk % static_cast<std::int64_t>(kStatisticsSlots)];
    if (threadIdx.x % kWarpThreads == 0) slot = combined(slot, of_chunk);
  }
  __syncthreads();
  return block_combine(slots[threadIdx.x], slots);
}

// With registers for 4 blocks of a multiprocessor, so that a thread's loads stay in flight together.
template <class Element>
__global__ void __launch_bounds__(kThreads, 4)
    encode_blocks_kernel(const Job* __restrict__ jobs, const EncodeTile* __restrict__ tiles, DrawStream stream,
                         std::uint32_t refine_purpose, double clip_factor, ScalerRule rule) {
  __shared__ Statistics slots[kStatisticsSlots];
  __shared__ float scaler;
  const EncodeTile tile = tiles[blockIdx.x];
  TernarizeJob job = jobs[tile.job].ternarize;
  const std::int64_t first = tile.first_scaler * job.block_elements;
  const std::int64_t count = min(job.block_elements, job.count - first);
  const Statistics statistics = block_statistics(static_cast<const Element*>(job.gradient) + first, count, slots);
  if (threadIdx.x == 0) {
    scaler = scaler_of(statistics, count, clip_factor, rule);
    jobs[tile.job].scalers[tile.first_scaler] = scaler;
  }
  __syncthreads();
  // Every element of this block has the one scaler.
  job.scalers = &scaler;
  job.block_elements = 0;
  auto* words = reinterpret_cast<std::uint32_t*>(job.payload);
  for (std::int64_t begin = first; begin < first + count; begin += kChunkElements) {
    const std::int64_t chunk_count = min(kChunkElements, first + count - begin);
    const ThreadWord mine = ternarize_chunk<Element>(job, tile, begin, 0, chunk_count, stream, refine_purpose);
    if (mine.index * 16 < chunk_count) __stcg(words + begin / 16 + mine.index, mine.word);
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
        tiles_.push_back({static_cast<std::int32_t>(jobs_.size()), 0, block, 0});
      }
      jobs_.push_back({{.gradient = task.gradient,
                        .scalers = nullptr,
                        .clips = nullptr,
                        .payload = task.payload,
                        .first = 0,
                        .count = task.count,
                        .draw_offset = task.draw_offset,
                        .block_elements = task.block_elements,
                        .worker = task.worker},
                       task.scalers});
    }
    const unsigned grid = num_blocks_for(static_cast<std::int64_t>(tiles_.size()), 1);
    const Job* jobs = jobs_table_.on_device(jobs_, stream);
    const EncodeTile* tiles = tiles_table_.on_device(tiles_, stream);
    with_element(type, [&]<class Element>(Element) {
      launch(encode_blocks_kernel<Element>, dim3(grid), dim3(kThreads), 0, stream, jobs, tiles,
             make_draw_stream(key, device_step), static_cast<std::uint32_t>(DrawPurpose::kTernarizeRefine), clip_factor,
             rule);
    });
  }

 private:
  std::vector<Job> jobs_;
  std::vector<EncodeTile> tiles_;
  UploadedTable<Job> jobs_table_;
  UploadedTable<EncodeTile> tiles_table_;
};

}  // namespace

std::shared_ptr<EncodeBlocksRunner> make_encode_blocks_runner(const Device& device) {
  return std::make_shared<Runner>(device);
}

}  // namespace terngrad::cuda
