// Sums of codes on a GPU: one block per chunk. A thread sums 16 codes of all payloads in registers, several per word.
// Results go through shared memory, so that neighboring threads scale and store neighboring elements.
#include "kernels/codes/cuda/code_sum.h"

#include <cuda_runtime.h>

#include <array>
#include <cstdint>
#include <type_traits>
#include <vector>

#include "kernels/codes/cuda/codes.cuh"
#include "kernels/codes/cuda/packed_sums.cuh"
#include "kernels/codes/cuda/tasks.cuh"
#include "kernels/codes/cuda/word_reader.cuh"
#include "kernels/runtime/cuda/launch.cuh"
#include "kernels/runtime/cuda/uploaded_table.h"

namespace terngrad::cuda {
namespace {

constexpr unsigned kThreads = kChunkWords;  // one word of 16 codes per thread
/// Groups of four elements that a thread stores per chunk.
constexpr unsigned kGroupsPerThread = static_cast<unsigned>(kChunkElements) / 4 / kThreads;

struct Task {
  std::int64_t first_tile;
  std::int64_t count;
  const float* scales;
  float* out;
  BlockUnits units;
  std::int32_t first_payload;
  std::int32_t num_payloads;
  std::int32_t bias;       // kLanes: total bias of all payloads
  std::int32_t lane_bits;  // kLanes only
};

/// Resident blocks per multiprocessor: fewer than would fit, so that registers suffice for the addresses and words of a
/// whole batch. With 8 blocks the compiled code waits for memory three times per batch.
constexpr int blocks_per_processor(TernaryFormat format) { return format == TernaryFormat::kT2 ? 5 : 4; }

template <TernaryFormat kFormat, bool kWide>
__global__ void __launch_bounds__(kThreads, resident_blocks(blocks_per_processor(kFormat)))
    code_sum_kernel(const Task* __restrict__ tasks, std::int32_t num_tasks,
                    const std::uint32_t* const* __restrict__ payloads) {
  const Task& task = tasks[find_task(tasks, num_tasks, blockIdx.x)];
  const std::int64_t chunk = blockIdx.x - task.first_tile;
  const int num_payloads = task.num_payloads;
  const std::uint32_t* const* of_task = payloads + task.first_payload;

  const std::int64_t begin = chunk * kChunkElements;
  const TileBlocks blocks(task.units, static_cast<std::uint32_t>(begin / kMinBlockElements));
  const float* __restrict__ scales = task.scales;
  const float first_scale = __ldg(scales + blocks.first);

  const WordReader<kFormat> reader(task.count, chunk);
  std::conditional_t<kWide, WideSums, ByteSums> sums;
  for (int first = 0; first < num_payloads; first += kPayloadBatch) {
    std::uint32_t words[kPayloadBatch];
    reader.read([of_batch = of_task + first](int k) { return of_batch[k]; }, num_payloads - first, words);
#pragma unroll
    for (int k = 0; k < kPayloadBatch; ++k) words[k] = first + k < num_payloads ? words[k] ^ kTurned : 0;
    sums.add(words);
  }
  __shared__ __align__(16) std::uint32_t staged[kChunkWords * (kWide ? 8 : 4)];
  sums.stage(staged);
  __syncthreads();

  const auto count = static_cast<unsigned>(min(kChunkElements, task.count - begin));
  float* out = task.out + begin;
  const bool is_aligned = reinterpret_cast<std::uintptr_t>(out) % sizeof(float4) == 0;
  const float bias = static_cast<float>(kBias * static_cast<unsigned>(num_payloads));
  const auto scaled_group = [&](unsigned group, float scale) {
    const uint4 biased = staged_group<kWide>(staged, group);
    const auto scaled = [&](std::uint32_t sum) { return scale * (static_cast<float>(sum) - bias); };
    return make_float4(scaled(biased.x), scaled(biased.y), scaled(biased.z), scaled(biased.w));
  };
  if (is_aligned && count == kChunkElements && blocks.is_one() && first_scale == first_scale) {
#pragma unroll
    for (unsigned i = 0; i < kGroupsPerThread; ++i) {
      const unsigned group = i * kThreads + threadIdx.x;
      __stwb(reinterpret_cast<float4*>(out) + group, scaled_group(group, first_scale));
    }
    return;
  }
#pragma unroll 1
  for (unsigned group = threadIdx.x; 4 * group < count; group += kThreads) {
    const float scale = with_canonical_nan(__ldg(scales + blocks.of(4 * group)));
    // Keep the bits of a NaN scale.
    const float4 values = scale == scale ? scaled_group(group, scale) : make_float4(scale, scale, scale, scale);
    store_group(out, 4 * group, count, is_aligned, values);
  }
}

/// A thread's sums: groups of four elements, kThreads groups apart.
struct GroupSums {
  int of_group[kGroupsPerThread][4];

  __device__ explicit GroupSums(int bias) {
#pragma unroll
    for (auto& group : of_group) {
#pragma unroll
      for (int& sum : group) sum = -bias;
    }
  }

  __device__ void store(const Task& task, std::int64_t begin, unsigned count) const {
    float* out = task.out + begin;
    const bool is_aligned = reinterpret_cast<std::uintptr_t>(out) % sizeof(float4) == 0;
    const TileBlocks blocks(task.units, static_cast<std::uint32_t>(begin / kMinBlockElements));
    const float* __restrict__ scales = task.scales;
#pragma unroll
    for (unsigned i = 0; i < kGroupsPerThread; ++i) {
      const unsigned element = 4 * (i * kThreads + threadIdx.x);
      if (element >= count) break;
      const float scale = scales[blocks.of(element)];
      const auto scaled = [&](int sum) { return with_canonical_nan(scale * static_cast<float>(sum)); };
      const int(&sums)[4] = of_group[i];
      store_group(out, element, count, is_aligned,
                  make_float4(scaled(sums[0]), scaled(sums[1]), scaled(sums[2]), scaled(sums[3])));
    }
  }
};

/// Sums lanes. All payloads together contain the bias of all workers once.
__global__ void __launch_bounds__(kThreads) lane_sum_kernel(const Task* __restrict__ tasks, std::int32_t num_tasks,
                                                            const std::uint32_t* const* __restrict__ payloads) {
  const Task& task = tasks[find_task(tasks, num_tasks, blockIdx.x)];
  const std::int64_t chunk = blockIdx.x - task.first_tile;
  const std::int64_t begin = chunk * kChunkElements;
  const auto count = static_cast<unsigned>(min(kChunkElements, task.count - begin));
  const int num_payloads = task.num_payloads;
  const std::uint32_t* const* of_task = payloads + task.first_payload;

  const LaneReader reader(task.count, chunk, task.lane_bits);
  GroupSums sums(task.bias);
  for (int k = 0; k < num_payloads; ++k) {
    const auto* words = reinterpret_cast<const std::uint64_t*>(of_task[k]);
#pragma unroll
    for (unsigned i = 0; i < kGroupsPerThread; ++i) {
      const unsigned element = 4 * (i * kThreads + threadIdx.x);
      if (element < count) reader.add_group(words, element, sums.of_group[i]);
    }
  }
  sums.store(task, begin, count);
}

/// Sums q4 or q8 codes, each with bias L.
template <unsigned kBits>
__global__ void __launch_bounds__(kThreads) level_sum_kernel(const Task* __restrict__ tasks, std::int32_t num_tasks,
                                                             const std::uint32_t* const* __restrict__ payloads) {
  const Task& task = tasks[find_task(tasks, num_tasks, blockIdx.x)];
  const std::int64_t begin = (blockIdx.x - task.first_tile) * kChunkElements;
  const auto count = static_cast<unsigned>(min(kChunkElements, task.count - begin));
  const int num_payloads = task.num_payloads;
  const std::uint32_t* const* of_task = payloads + task.first_payload;
  GroupSums sums(0);
  // Payloads are read in pairs so that loads overlap; the last pair may repeat the last payload.
  for (int k = 0; k < num_payloads; k += 2) {
    const bool has_second = k + 1 < num_payloads;
    std::uint32_t fours[2][kGroupsPerThread];
#pragma unroll
    for (unsigned i = 0; i < kGroupsPerThread; ++i) {
      const unsigned element = 4 * (i * kThreads + threadIdx.x);
      const std::int64_t at = begin + (element < count ? element : 0);
      fours[0][i] = four_codes<kBits>(of_task[k], at);
      fours[1][i] = four_codes<kBits>(of_task[has_second ? k + 1 : k], at);
    }
#pragma unroll
    for (unsigned i = 0; i < kGroupsPerThread; ++i) {
#pragma unroll
      for (unsigned j = 0; j < 4; ++j) {
        sums.of_group[i][j] += level_at<kBits>(fours[0][i], j) + (has_second ? level_at<kBits>(fours[1][i], j) : 0);
      }
    }
  }
  sums.store(task, begin, count);
}

/// Selects a kernel for a task.
enum Kind : unsigned {
  kT2Bytes,
  kT2Wide,
  kT5Bytes,
  kT5Wide,
  kTMaskBytes,
  kTMaskWide,
  kLaneSums,
  kQ4Sums,
  kQ8Sums,
  kNumKinds
};

Kind kind_of(const CodeSumTask& task) {
  const bool wide = task.payloads.size() > static_cast<std::size_t>(kBytePayloads);
  switch (task.format) {
    case TernaryFormat::kT2:
      return wide ? kT2Wide : kT2Bytes;
    case TernaryFormat::kT5:
      return wide ? kT5Wide : kT5Bytes;
    case TernaryFormat::kTMask:
      return wide ? kTMaskWide : kTMaskBytes;
    case TernaryFormat::kLanes:
      return kLaneSums;
    case CodeFormat::kQ4:
      return kQ4Sums;
    case CodeFormat::kQ8:
      return kQ8Sums;
    case CodeFormat::kN8:
    case CodeFormat::kN4:
    case CodeFormat::kE4M3:
    case CodeFormat::kBits:
    case CodeFormat::kE2:
    case CodeFormat::kE3:
    case CodeFormat::kE4:
    case CodeFormat::kTrans:
      break;  // refused earlier
  }
  TERNGRAD_THROW(InvalidArgument, "[aggregate] unknown format ", static_cast<int>(task.format));
}

using Kernel = void (*)(const Task*, std::int32_t, const std::uint32_t* const*);
constexpr std::array<Kernel, kNumKinds> kKernels = {code_sum_kernel<TernaryFormat::kT2, false>,
                                                    code_sum_kernel<TernaryFormat::kT2, true>,
                                                    code_sum_kernel<TernaryFormat::kT5, false>,
                                                    code_sum_kernel<TernaryFormat::kT5, true>,
                                                    code_sum_kernel<TernaryFormat::kTMask, false>,
                                                    code_sum_kernel<TernaryFormat::kTMask, true>,
                                                    lane_sum_kernel,
                                                    level_sum_kernel<4>,
                                                    level_sum_kernel<8>};

class Runner final : public CodeSumRunner {
 public:
  explicit Runner(const Device& device) : tasks_table_(device), payloads_table_(device) {}

  void run(std::span<const CodeSumTask> tasks, Stream& stream) override {
    tasks_.clear();
    payloads_.clear();
    std::array<std::size_t, kNumKinds + 1> first_task{};
    std::array<std::int64_t, kNumKinds> num_tiles{};
    for (unsigned kind = 0; kind < kNumKinds; ++kind) {
      for (const CodeSumTask& task : tasks) {
        if (kind_of(task) == kind && task.count > 0) num_tiles[kind] += append(task, num_tiles[kind]);
      }
      first_task[kind + 1] = tasks_.size();
    }
    const Task* on_device = tasks_table_.on_device(tasks_, stream);
    const std::uint32_t* const* payloads = payloads_table_.on_device(payloads_, stream);
    for (unsigned kind = 0; kind < kNumKinds; ++kind) {
      const auto count = static_cast<std::int32_t>(first_task[kind + 1] - first_task[kind]);
      launch(kKernels[kind], dim3(num_blocks_for(num_tiles[kind], 1)), dim3(kThreads), 0, stream,
             on_device + first_task[kind], count, payloads);
    }
  }

 private:
  /// @returns the number of tiles
  std::int64_t append(const CodeSumTask& task, std::int64_t first_tile) {
    const bool is_lanes = task.format == TernaryFormat::kLanes;
    tasks_.push_back(
        {first_tile, task.count, task.scales, task.out, block_units(task.first, task.count, task.block_elements),
         static_cast<std::int32_t>(payloads_.size()), static_cast<std::int32_t>(task.payloads.size()),
         is_lanes ? summed_lane_bias(task) : 0, is_lanes ? lane_bits(task.num_workers, task.lane_levels) : 0});
    for (const std::uint8_t* payload : task.payloads) {
      payloads_.push_back(reinterpret_cast<const std::uint32_t*>(payload));
    }
    if (payloads_.size() % kPayloadBatch != 0)
      payloads_.resize((payloads_.size() / kPayloadBatch + 1) * kPayloadBatch, payloads_.back());
    return (task.count + kChunkElements - 1) / kChunkElements;
  }

  std::vector<Task> tasks_;                     // ordered by kind
  std::vector<const std::uint32_t*> payloads_;  // per task padded to whole batches with the last one
  UploadedTable<Task> tasks_table_;
  UploadedTable<const std::uint32_t*> payloads_table_;
};

}  // namespace

std::shared_ptr<CodeSumRunner> make_code_sum_runner(const Device& device) { return std::make_shared<Runner>(device); }

}  // namespace terngrad::cuda
