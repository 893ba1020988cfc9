// Packing of sums into lanes on a GPU: one thread per word. Sums are staged in shared memory for coalesced loads.
#include "kernels/codes/cuda/pack_sums.h"

#include <cuda_runtime.h>

#include <cstdint>
#include <vector>

#include "kernels/codes/cuda/tasks.cuh"
#include "kernels/codes/lanes.h"
#include "kernels/runtime/cuda/launch.cuh"
#include "kernels/runtime/cuda/uploaded_table.h"

namespace terngrad::cuda {
namespace {

constexpr unsigned kThreads = 256;
/// Maximum lanes per word if staged as `Lane`: for lanes of 1 to 8 bits, 9 to 16, or more.
template <class Lane>
constexpr unsigned kMostLanes = sizeof(Lane) == 1   ? 64
                                : sizeof(Lane) == 2 ? 7
                                                    : 3;

struct Task {
  std::int64_t first_tile;  // tiles of kThreads words
  std::int64_t count;
  const float* sums;
  std::uint64_t* words;
};

template <class Lane>
__global__ void __launch_bounds__(kThreads)
    pack_sums_kernel(const Task* __restrict__ tasks, std::int32_t num_tasks, int bias, unsigned bits) {
  __shared__ Lane lanes[kThreads * kMostLanes<Lane>];
  const Task task = tasks[find_task(tasks, num_tasks, blockIdx.x)];
  const std::int64_t tile = blockIdx.x - task.first_tile;
  const unsigned per_word = 64 / bits;
  const unsigned per_block = kThreads * per_word;
  const std::int64_t begin = tile * per_block;
  const auto left = static_cast<unsigned>(min(task.count - begin, std::int64_t{per_block}));
  for (unsigned i = threadIdx.x; i < left; i += kThreads) {
    lanes[i] = static_cast<Lane>(static_cast<int>(task.sums[begin + i]) + bias);
  }
  __syncthreads();
  const unsigned first = threadIdx.x * per_word;
  if (first >= left) return;
  const unsigned end = min(left, first + per_word);
  std::uint64_t word = 0;
  for (unsigned i = end; i-- > first;) word = word << bits | lanes[i];
  task.words[tile * kThreads + threadIdx.x] = word;
}

class Runner final : public SumPackRunner {
 public:
  Runner(int num_workers, int lane_levels, const Device& device)
      : bits_(lane_bits(num_workers, lane_levels)), bias_(lane_bias(num_workers, lane_levels)), tasks_table_(device) {}

  void run(std::span<const SumPackTask> tasks, Stream& stream) override {
    const std::int64_t per_tile = std::int64_t{kThreads} * lanes_per_word(bits_);
    tasks_.clear();
    std::int64_t num_tiles = 0;
    for (const SumPackTask& task : tasks) {
      if (task.count == 0) continue;
      tasks_.push_back({num_tiles, task.count, task.sums, reinterpret_cast<std::uint64_t*>(task.payload)});
      num_tiles += (task.count + per_tile - 1) / per_tile;
    }
    const auto kernel = bits_ <= 8    ? pack_sums_kernel<std::uint8_t>
                        : bits_ <= 16 ? pack_sums_kernel<std::uint16_t>
                                      : pack_sums_kernel<std::uint32_t>;
    launch(kernel, dim3(num_blocks_for(num_tiles, 1)), dim3(kThreads), 0, stream,
           tasks_table_.on_device(tasks_, stream), static_cast<std::int32_t>(tasks_.size()), bias_,
           static_cast<unsigned>(bits_));
  }

 private:
  int bits_;
  int bias_;
  std::vector<Task> tasks_;
  UploadedTable<Task> tasks_table_;
};

}  // namespace

std::shared_ptr<SumPackRunner> make_sum_pack_runner(int num_workers, int lane_levels, const Device& device) {
  return std::make_shared<Runner>(num_workers, lane_levels, device);
}

}  // namespace terngrad::cuda
