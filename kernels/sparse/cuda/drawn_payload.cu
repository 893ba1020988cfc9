// Drawn elements on a GPU: gather and scatter kernels in which a thread handles four groups, those of one block of
// draws.
#include "kernels/sparse/cuda/drawn_payload.h"

#include <cuda_runtime.h>

#include <cstdint>
#include <vector>

#include "kernels/codes/cuda/draws.cuh"
#include "kernels/runtime/cuda/launch.cuh"
#include "kernels/runtime/cuda/uploaded_table.h"
#include "kernels/tensor/bfloat16.h"
#include "kernels/tensor/cuda/elements.cuh"
#include "kernels/tensor/slice.h"

namespace terngrad::cuda {
namespace {

constexpr unsigned kThreads = 256;
constexpr std::int64_t kDrawsPerThread = 4;
constexpr std::int64_t kTileGroups = std::int64_t{kThreads} * kDrawsPerThread;

/// DrawnEncodeTask and DrawnSumTask in the form for kernels.
struct Job {
  const void* values;  // for a sum: means of its groups
  const float* flag;
  std::uint8_t* payload;  // for a sum: any worker's payload, which holds the key
  float* out;
  std::int64_t first;
  std::int64_t count;
  std::int64_t first_group;
  std::int64_t num_groups;
  std::int64_t group_elements;
  std::int64_t draw_offset;
};

struct Tile {
  std::int32_t job;
  std::int32_t index;
};

template <bool kBfloat16>
__device__ void write_value(std::uint8_t* payload, std::int64_t index, float value) {
  if constexpr (kBfloat16) {
    reinterpret_cast<std::uint16_t*>(payload + kDrawnKeyBytes)[index] = to_bfloat16(value);
  } else {
    reinterpret_cast<float*>(payload + kDrawnKeyBytes)[index] = value;
  }
}

template <class Element, bool kBfloat16>
__global__ void __launch_bounds__(kThreads)
    drawn_gather_kernel(const Job* __restrict__ jobs, const Tile* __restrict__ tiles, const DrawStream stream,
                        float factor) {
  const Tile tile = tiles[blockIdx.x];
  const Job job = jobs[tile.job];
  const uint4 key =
      draw_block(stream, step_of(stream), 0, stream.purpose, static_cast<std::uint64_t>(job.draw_offset) / 4);
  const std::uint64_t selection = key.x | std::uint64_t{key.y} << 32;
  const bool is_first = tile.index == 0 && threadIdx.x == 0;
  if (is_first) *reinterpret_cast<std::uint64_t*>(job.payload) = selection;
  // Padding of 16-bit values to a multiple of 4 bytes.
  if (is_first && kBfloat16 && job.num_groups % 2 != 0) write_value<kBfloat16>(job.payload, job.num_groups, 0.0f);
  const float flag = job.flag == nullptr ? 0.0f : *job.flag;
  const bool zeros = flag != flag;
  const std::int64_t block = job.first_group / kDrawsPerThread + std::int64_t{tile.index} * kThreads + threadIdx.x;
  if (block * kDrawsPerThread >= job.first_group + job.num_groups) return;
  const auto draws = group_draws(selection, static_cast<std::uint64_t>(block));
  const auto* values = static_cast<const Element*>(job.values);
#pragma unroll
  for (int i = 0; i < kDrawsPerThread; ++i) {
    const std::int64_t group = block * kDrawsPerThread + i;
    if (group < job.first_group || group >= job.first_group + job.num_groups) continue;
    const std::int64_t place = drawn_place(group, draws[static_cast<std::size_t>(i)], job.group_elements) - job.first;
    const bool is_sent = place >= 0 && place < job.count && !zeros;
    write_value<kBfloat16>(job.payload, group - job.first_group, is_sent ? factor * widened(values[place]) : 0.0f);
  }
}

/// One block per chunk of the sum: writes zeros, then the means of the groups that the chunk touches.
__global__ void __launch_bounds__(kThreads)
    drawn_scatter_kernel(const Job* __restrict__ jobs, const Tile* __restrict__ tiles) {
  const Tile tile = tiles[blockIdx.x];
  const Job job = jobs[tile.job];
  const std::int64_t begin = std::int64_t{tile.index} * kChunkElements;
  const std::int64_t count = min(kChunkElements, job.count - begin);
  float* out = job.out + begin;
  for (std::int64_t i = threadIdx.x; i < count; i += kThreads) out[i] = 0;
  __syncthreads();
  const std::uint64_t selection = *reinterpret_cast<const std::uint64_t*>(job.payload);
  const auto* means = static_cast<const float*>(job.values);
  const std::int64_t first = job.first + begin;
  const std::int64_t first_group = first / job.group_elements;
  const std::int64_t last_group = (first + count - 1) / job.group_elements;
  for (std::int64_t block = first_group / kDrawsPerThread + threadIdx.x; block * kDrawsPerThread <= last_group;
       block += kThreads) {
    const auto draws = group_draws(selection, static_cast<std::uint64_t>(block));
#pragma unroll
    for (int i = 0; i < kDrawsPerThread; ++i) {
      const std::int64_t group = block * kDrawsPerThread + i;
      if (group < first_group || group > last_group) continue;
      const std::int64_t place = drawn_place(group, draws[static_cast<std::size_t>(i)], job.group_elements) - first;
      if (place >= 0 && place < count) out[place] = means[group - job.first_group];
    }
  }
}

class Runner final : public DrawnRunner {
 public:
  explicit Runner(const Device& device) : jobs_table_(device), tiles_table_(device) {}

  void encode(std::span<const DrawnEncodeTask> tasks, float factor, const DrawKey& key,
              const std::uint64_t* device_step, Stream& stream) override {
    jobs_.clear();
    tiles_.clear();
    for (const DrawnEncodeTask& task : tasks) {
      // The first thread's block of draws may begin before the first group.
      const std::int64_t num_groups = task.shape.first_group() % kDrawsPerThread + task.shape.num_groups();
      add_tiles(num_groups, kTileGroups);
      jobs_.push_back(job_of(task.shape, task.values, task.flag, task.payload, nullptr, task.draw_offset));
    }
    const bool is_bf16 = tasks[0].shape.values == SparseValues::kBfloat16;
    const dim3 grid(num_blocks_for(static_cast<std::int64_t>(tiles_.size()), 1));
    const Job* jobs = jobs_table_.on_device(jobs_, stream);
    const Tile* tiles = tiles_table_.on_device(tiles_, stream);
    const DrawStream draws = make_draw_stream(key, device_step);
    with_element(tasks[0].type, [&](auto element) {
      using Element = decltype(element);
      launch(is_bf16 ? drawn_gather_kernel<Element, true> : drawn_gather_kernel<Element, false>, grid, dim3(kThreads),
             0, stream, jobs, tiles, draws, factor);
    });
  }

  void scatter(std::span<const DrawnSumTask> tasks, const float* means, Stream& stream) override {
    jobs_.clear();
    tiles_.clear();
    for (const DrawnSumTask& task : tasks) {
      add_tiles(task.shape.count, kChunkElements);
      auto* const payload = const_cast<std::uint8_t*>(task.payloads[0]);  // only read
      jobs_.push_back(job_of(task.shape, means, nullptr, payload, task.out, 0));
      means += task.shape.num_groups();
    }
    const dim3 grid(num_blocks_for(static_cast<std::int64_t>(tiles_.size()), 1));
    launch(drawn_scatter_kernel, grid, dim3(kThreads), 0, stream, jobs_table_.on_device(jobs_, stream),
           tiles_table_.on_device(tiles_, stream));
  }

 private:
  static Job job_of(const DrawnShape& shape, const void* values, const float* flag, std::uint8_t* payload, float* out,
                    std::int64_t draw_offset) {
    return {.values = values,
            .flag = flag,
            .payload = payload,
            .out = out,
            .first = shape.first,
            .count = shape.count,
            .first_group = shape.first_group(),
            .num_groups = shape.num_groups(),
            .group_elements = shape.group_elements,
            .draw_offset = draw_offset};
  }
  /// Adds the tiles of the next job.
  void add_tiles(std::int64_t items, std::int64_t per_tile) {
    for (std::int64_t tile = 0; tile * per_tile < items; ++tile) {
      tiles_.push_back({static_cast<std::int32_t>(jobs_.size()), static_cast<std::int32_t>(tile)});
    }
  }

  std::vector<Job> jobs_;
  std::vector<Tile> tiles_;
  UploadedTable<Job> jobs_table_;
  UploadedTable<Tile> tiles_table_;
};

}  // namespace

std::shared_ptr<DrawnRunner> make_drawn_runner(const Device& device) { return std::make_shared<Runner>(device); }

}  // namespace terngrad::cuda
