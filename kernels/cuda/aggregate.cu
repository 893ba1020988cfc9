// Sums of codes on a GPU: a block per chunk, in which a thread adds up 16 codes of all payloads in registers, several
// to a word; shared memory then hands neighbouring elements to neighbouring threads, which scale and store them.
#include "kernels/cuda/aggregate.h"

#include <cuda_runtime.h>

#include <array>
#include <cstdint>
#include <type_traits>
#include <vector>

#include "kernels/cuda/codes.cuh"
#include "kernels/cuda/launch.cuh"
#include "kernels/cuda/tasks.cuh"
#include "kernels/cuda/uploaded_table.h"

namespace terngrad::cuda {
namespace {

constexpr unsigned kThreads = kChunkWords;  // a word of 16 codes each
constexpr unsigned kWarps = kThreads / kWarpThreads;
/// Payloads whose words are loaded before any is used.
constexpr int kBatch = 8;
static_assert(kBatch == kWarps, "a warp per payload of a batch reads tmask");
/// Groups of four elements of a chunk, and those that a thread stores.
constexpr unsigned kGroupsPerThread = static_cast<unsigned>(kChunkElements) / 4 / kThreads;

/// Codes are added up as code + 2 in pairs of bits, code + 2 being the pair with its high bit turned: 1, 2 or 3.
constexpr std::uint32_t kTurned = 0xaaaaaaaau;
constexpr unsigned kBias = 2;
/// Payloads whose sums fit a byte, and as whole batches; those of kMaxSummedWorkers fit 16 bits.
constexpr int kBytePayloads = 255 / 3;
constexpr int kByteBatches = kBytePayloads / kBatch;
static_assert(3 * kMaxSummedWorkers <= 0xffff, "sums of pairs fit 16 bits");

struct Task {
  std::int64_t first_tile;
  std::int64_t count;
  const float* scales;
  float* out;
  BlockUnits units;
  std::int32_t first_payload;
  std::int32_t num_payloads;
  std::int32_t num_workers;
  std::int32_t lane_bits;  // of kLanes
};

/// Sums of a thread's 16 codes, all biased. Byte m of part j belongs to code 4m + j.
struct ByteSums {
  std::uint32_t part[4] = {0, 0, 0, 0};

  __device__ void add(const std::uint32_t (&words)[kBatch]) {
    // Four pairs fit a nibble: even codes and odd codes.
#pragma unroll
    for (int half = 0; half < kBatch; half += 4) {
      std::uint32_t even = 0;
      std::uint32_t odd = 0;
#pragma unroll
      for (int k = half; k < half + 4; ++k) {
        even += words[k] & 0x33333333u;
        odd += words[k] >> 2 & 0x33333333u;
      }
      part[0] += even & 0x0f0f0f0fu;
      part[1] += odd & 0x0f0f0f0fu;
      part[2] += even >> 4 & 0x0f0f0f0fu;
      part[3] += odd >> 4 & 0x0f0f0f0fu;
    }
  }

  /// Writes the thread's sums in order, a byte each.
  __device__ void stage(std::uint32_t* staged) const {
    const std::uint32_t low01 = (part[0] & 0x00ff00ffu) | (part[1] & 0x00ff00ffu) << 8;
    const std::uint32_t low23 = (part[2] & 0x00ff00ffu) | (part[3] & 0x00ff00ffu) << 8;
    const std::uint32_t high01 = (part[0] >> 8 & 0x00ff00ffu) | (part[1] & 0xff00ff00u);
    const std::uint32_t high23 = (part[2] >> 8 & 0x00ff00ffu) | (part[3] & 0xff00ff00u);
    reinterpret_cast<uint4*>(staged)[threadIdx.x] =
        make_uint4((low01 & 0xffffu) | low23 << 16, (high01 & 0xffffu) | high23 << 16,
                   low01 >> 16 | (low23 & 0xffff0000u), high01 >> 16 | (high23 & 0xffff0000u));
  }
};

/// The sums of many payloads: bytes, emptied into 16 bits before they overflow.
struct WideSums {
  ByteSums bytes;
  int batches = 0;                        // in `bytes`
  std::uint32_t outer[4] = {0, 0, 0, 0};  // of part j: codes j and j + 8
  std::uint32_t inner[4] = {0, 0, 0, 0};  // codes j + 4 and j + 12

  __device__ void add(const std::uint32_t (&words)[kBatch]) {
    bytes.add(words);
    if (++batches == kByteBatches) empty();
  }

  __device__ void empty() {
#pragma unroll
    for (int j = 0; j < 4; ++j) {
      outer[j] += bytes.part[j] & 0x00ff00ffu;
      inner[j] += bytes.part[j] >> 8 & 0x00ff00ffu;
      bytes.part[j] = 0;
    }
    batches = 0;
  }

  /// Writes the thread's sums in order, 16 bits each.
  __device__ void stage(std::uint32_t* staged) {
    empty();
    auto* rows = reinterpret_cast<uint4*>(staged) + 2 * threadIdx.x;
    rows[0] = make_uint4((outer[0] & 0xffffu) | outer[1] << 16, (outer[2] & 0xffffu) | outer[3] << 16,
                         (inner[0] & 0xffffu) | inner[1] << 16, (inner[2] & 0xffffu) | inner[3] << 16);
    rows[1] = make_uint4(outer[0] >> 16 | (outer[1] & 0xffff0000u), outer[2] >> 16 | (outer[3] & 0xffff0000u),
                         inner[0] >> 16 | (inner[1] & 0xffff0000u), inner[2] >> 16 | (inner[3] & 0xffff0000u));
  }
};

/// Four neighbouring sums from where `stage` put them.
template <bool kWide>
__device__ uint4 staged_group(const std::uint32_t* staged, unsigned group) {
  if constexpr (kWide) {
    const uint2 sums = reinterpret_cast<const uint2*>(staged)[group];
    return make_uint4(sums.x & 0xffffu, sums.x >> 16, sums.y & 0xffffu, sums.y >> 16);
  } else {
    const std::uint32_t sums = staged[group];
    return make_uint4(sums & 0xffu, sums >> 8 & 0xffu, sums >> 16 & 0xffu, sums >> 24);
  }
}

/// Reads this thread's word of a batch of payloads, with the high bits of its pairs turned; absent payloads give 0.
/// Absent payloads and words are read like the last one there is, so that no branch keeps the loads apart.
/// @param payloads  kBatch of them, at a multiple of 16 bytes
/// @param left      payloads that are there, from the first of the batch on
template <TernaryFormat kFormat>
struct WordReader;

template <>
struct WordReader<TernaryFormat::kT2> {
  std::int64_t word;

  __device__ WordReader(std::int64_t count, std::int64_t chunk) {
    word = min(chunk * kChunkWords + threadIdx.x, (count - 1) / kCodesPerWord);
  }
  __device__ void read(const std::uint32_t* const* payloads, int left, std::uint32_t (&words)[kBatch]) const {
#pragma unroll
    for (int k = 0; k < kBatch; ++k) words[k] = __ldg(payloads[k] + word);
#pragma unroll
    for (int k = 0; k < kBatch; ++k) words[k] = k < left ? words[k] ^ kTurned : 0;
  }
};

template <>
struct WordReader<TernaryFormat::kT5> {
  T5Place place;

  __device__ WordReader(std::int64_t count, std::int64_t chunk)
      : place(min(chunk * kChunkElements + threadIdx.x * kCodesPerWord, (count - 1) / kCodesPerWord * kCodesPerWord),
              count) {}
  __device__ void read(const std::uint32_t* const* payloads, int left, std::uint32_t (&words)[kBatch]) const {
    std::uint32_t high[kBatch];
#pragma unroll
    for (int k = 0; k < kBatch; ++k) {
      const std::uint32_t* at = payloads[k] + place.word;
      words[k] = __ldg(at);
      high[k] = __ldg(at + (place.is_split ? 1 : 0));
    }
#pragma unroll
    for (int k = 0; k < kBatch; ++k) words[k] = k < left ? t5_as_t2(words[k], high[k], place) ^ kTurned : 0;
  }
};

/// Each warp reads a payload for the whole block.
template <>
struct WordReader<TernaryFormat::kTMask> {
  std::int64_t num_codes;
  std::int64_t chunk;

  __device__ WordReader(std::int64_t count, std::int64_t tile) : num_codes(count), chunk(tile) {}
  __device__ void read(const std::uint32_t* const* payloads, int left, std::uint32_t (&words)[kBatch]) const {
    __shared__ std::uint32_t of_payload[kBatch][kChunkWords];
    const unsigned warp = threadIdx.x / kWarpThreads;
    if (static_cast<int>(warp) < left) {
      const TMaskView view(payloads[warp], num_codes);
      const std::int64_t first = chunk * (kChunkElements / 32) + threadIdx.x % kWarpThreads;
      std::uint32_t masks[kChunkWarpCodes];
#pragma unroll
      for (unsigned part = 0; part < kChunkWarpCodes; ++part) masks[part] = view.mask(first + part * kWarpThreads);
      std::uint64_t sign = std::uint64_t{8} * __ldg(view.offsets + chunk);
#pragma unroll
      for (unsigned part = 0; part < kChunkWarpCodes; ++part) {
        const uint2 pair = view.warp_words(masks[part], sign);
        const unsigned at = 2 * (part * kWarpThreads + threadIdx.x % kWarpThreads);
        of_payload[warp][at] = pair.x;
        of_payload[warp][at + 1] = pair.y;
        sign += __reduce_add_sync(kAllLanes, static_cast<unsigned>(__popc(masks[part])));
      }
    }
    __syncthreads();
#pragma unroll
    for (int k = 0; k < kBatch; ++k) words[k] = k < left ? of_payload[k][threadIdx.x] ^ kTurned : 0;
    __syncthreads();  // of_payload may be written again
  }
};

/// Blocks that share a multiprocessor: fewer than fit, so that registers are left for the addresses and words of a
/// whole batch. With 8 the compiler waits for memory three times a batch.
constexpr unsigned blocks_per_processor(TernaryFormat format) { return format == TernaryFormat::kT2 ? 5 : 4; }

template <TernaryFormat kFormat, bool kWide>
__global__ void __launch_bounds__(kThreads, blocks_per_processor(kFormat))
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
  for (int first = 0; first < num_payloads; first += kBatch) {
    std::uint32_t words[kBatch];
    reader.read(of_task + first, num_payloads - first, words);
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
      __stcg(reinterpret_cast<float4*>(out) + group, scaled_group(group, first_scale));
    }
    return;
  }
#pragma unroll 1
  for (unsigned group = threadIdx.x; 4 * group < count; group += kThreads) {
    const float scale = with_canonical_nan(__ldg(scales + blocks.of(4 * group)));
    // A NaN stays the one it is.
    const float4 values = scale == scale ? scaled_group(group, scale) : make_float4(scale, scale, scale, scale);
    store_group(out, 4 * group, count, is_aligned, values);
  }
}

/// Lanes: every payload's bias of num_workers is in all payloads together once.
__global__ void __launch_bounds__(kThreads) lane_sum_kernel(const Task* __restrict__ tasks, std::int32_t num_tasks,
                                                            const std::uint32_t* const* __restrict__ payloads) {
  const Task& task = tasks[find_task(tasks, num_tasks, blockIdx.x)];
  const std::int64_t chunk = blockIdx.x - task.first_tile;
  const std::int64_t begin = chunk * kChunkElements;
  const auto count = static_cast<unsigned>(min(kChunkElements, task.count - begin));
  const int num_payloads = task.num_payloads;
  const std::uint32_t* const* of_task = payloads + task.first_payload;

  const LaneReader reader(task.count, chunk, task.lane_bits);
  int sums[kGroupsPerThread][4];
#pragma unroll
  for (auto& group : sums) {
#pragma unroll
    for (int& sum : group) sum = -task.num_workers;
  }
  for (int k = 0; k < num_payloads; ++k) {
    const auto* words = reinterpret_cast<const std::uint64_t*>(of_task[k]);
#pragma unroll
    for (unsigned i = 0; i < kGroupsPerThread; ++i) {
      const unsigned element = 4 * (i * kThreads + threadIdx.x);
      if (element < count) reader.add_group(words, element, sums[i]);
    }
  }

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
    store_group(out, element, count, is_aligned,
                make_float4(scaled(sums[i][0]), scaled(sums[i][1]), scaled(sums[i][2]), scaled(sums[i][3])));
  }
}

/// The kernels, and the tasks that each can run.
enum Kind : unsigned { kT2Bytes, kT2Wide, kT5Bytes, kT5Wide, kTMaskBytes, kTMaskWide, kLaneSums, kNumKinds };

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
                                                    lane_sum_kernel};

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
  /// @returns its tiles
  std::int64_t append(const CodeSumTask& task, std::int64_t first_tile) {
    const bool is_lanes = task.format == TernaryFormat::kLanes;
    tasks_.push_back({first_tile, task.count, task.scales, task.out,
                      block_units(task.first, task.count, task.block_elements),
                      static_cast<std::int32_t>(payloads_.size()), static_cast<std::int32_t>(task.payloads.size()),
                      task.num_workers, is_lanes ? lane_bits(task.num_workers) : 0});
    for (const std::uint8_t* payload : task.payloads) {
      const std::uintptr_t alignment = is_lanes ? sizeof(std::uint64_t) : sizeof(std::uint32_t);
      TERNGRAD_REQUIRE(reinterpret_cast<std::uintptr_t>(payload) % alignment == 0, "[aggregate] a payload in format ",
                       to_string(task.format), " must begin at a multiple of ", alignment, " bytes");
      payloads_.push_back(reinterpret_cast<const std::uint32_t*>(payload));
    }
    if (payloads_.size() % kBatch != 0) payloads_.resize((payloads_.size() / kBatch + 1) * kBatch, payloads_.back());
    return (task.count + kChunkElements - 1) / kChunkElements;
  }

  std::vector<Task> tasks_;                     // by kind
  std::vector<const std::uint32_t*> payloads_;  // a task's fill whole batches, the last repeated
  UploadedTable<Task> tasks_table_;
  UploadedTable<const std::uint32_t*> payloads_table_;
};

}  // namespace

std::shared_ptr<CodeSumRunner> make_code_sum_runner(const Device& device) { return std::make_shared<Runner>(device); }

}  // namespace terngrad::cuda
