// Tree sums on a GPU: a thread adds up four neighbouring elements of all workers. Eight workers are one complete
// subtree; subtrees are combined like the bits of a binary counter.
#include "kernels/cuda/tree_sum.h"

#include <cuda_runtime.h>

#include <array>
#include <bit>
#include <cstdint>
#include <vector>

#include "kernels/bfloat16.h"
#include "kernels/cuda/codes.cuh"
#include "kernels/cuda/launch.cuh"
#include "kernels/cuda/tasks.cuh"
#include "kernels/cuda/uploaded_table.h"

namespace terngrad::cuda {
namespace {

constexpr unsigned kThreads = 256;
constexpr unsigned kWarps = kThreads / kWarpThreads;
constexpr unsigned kTileElements = 4 * kThreads;
constexpr unsigned kTileWords = kTileElements / kCodesPerWord;
/// Workers whose elements are loaded before any is used.
constexpr int kBatch = 8;
static_assert(kBatch == kWarps && kTileElements == kWarpCodes, "a warp reads the codes of a tile of one worker");

/// Levels of batches: for up to 15, 127 and all workers. Levels are registers.
constexpr unsigned kFewLevels = 1;
constexpr unsigned kSomeLevels = 4;
constexpr unsigned kAllLevels = 12;
static_assert(kBatch * (1 << kAllLevels) - 1 == kMaxTreeWorkers, "the levels hold every number of whole batches");

struct Leaf {
  const void* values;
  const float* scalers;
};

struct Task {
  std::int64_t first_tile;
  std::int64_t count;
  float* out;
  BlockUnits units;
  std::int32_t first_leaf;
  std::int32_t num_leaves;
  std::uint32_t scale_bits;
  std::uint32_t is_aligned;  // whether four elements can be loaded at once from every leaf
};

/// The part of a task that a block adds up.
struct Tile {
  std::int64_t begin;
  std::int64_t count;  // of the task
  BlockUnits units;
  bool is_aligned;

  /// Elements of the task from this thread's first on; may be negative.
  __device__ std::int64_t left() const { return count - begin - 4 * threadIdx.x; }
};

__device__ float4 sum_of(const float4& a, const float4& b) {
  return make_float4(a.x + b.x, a.y + b.y, a.z + b.z, a.w + b.w);
}

/// Reads this thread's four elements of a batch of leaves; what lies past the end or belongs to no leaf is arbitrary.
/// @param leaves  kBatch of them, absent ones repeating the last, so that no branch keeps the loads apart
/// @param present leaves that are there
template <LeafFormat kFormat>
__device__ void read_batch(const Leaf* __restrict__ leaves, int present, const Tile& tile, float4 (&values)[kBatch]) {
  // Codes: each warp converts those of one worker for the whole block.
  __shared__ std::uint32_t words[kBatch][kTileWords];
  const unsigned warp = threadIdx.x / kWarpThreads;
  if (static_cast<int>(warp) < present) {
    const auto* payload = static_cast<const std::uint32_t*>(leaves[warp].values);
    const unsigned lane = threadIdx.x % kWarpThreads;
    uint2 pair;
    if constexpr (kFormat == LeafFormat::kTMask) {
      const auto part = static_cast<unsigned>(tile.begin % kChunkElements) / kWarpCodes;
      pair = TMaskView(payload, tile.count).part_of_chunk(tile.begin / kChunkElements, part);
    } else {
      const std::int64_t last = (tile.count - 1) / kCodesPerWord;
      const std::int64_t word = min(tile.begin / kCodesPerWord + 2 * lane, last);
      const auto word_at = [&](std::int64_t index) {
        if constexpr (kFormat == LeafFormat::kT2) {
          return __ldg(payload + index);
        } else {
          const T5Place place(index * kCodesPerWord, tile.count);
          return t5_as_t2(__ldg(payload + place.word), __ldg(payload + place.word + (place.is_split ? 1 : 0)), place);
        }
      };
      pair = make_uint2(word_at(word), word_at(min(word + 1, last)));
    }
    words[warp][2 * lane] = pair.x;
    words[warp][2 * lane + 1] = pair.y;
  }
  __syncthreads();
  const TileBlocks blocks(tile.units, static_cast<std::uint32_t>(tile.begin / kMinBlockElements));
  // Threads past the end look up the scaler of the tile's first element.
  const std::uint32_t scaler_index = blocks.of(tile.left() > 0 ? 4 * threadIdx.x : 0);
#pragma unroll
  for (int k = 0; k < kBatch; ++k) {
    const float scaler = __ldg(leaves[k].scalers + scaler_index);
    const std::uint32_t four =
        k < present ? words[k][threadIdx.x / 4] >> (8 * (threadIdx.x % 4)) : 0;  // codes, two bits each
    values[k] =
        make_float4(scaler * static_cast<float>(code_at(four, 0)), scaler * static_cast<float>(code_at(four, 1)),
                    scaler * static_cast<float>(code_at(four, 2)), scaler * static_cast<float>(code_at(four, 3)));
  }
  __syncthreads();  // words may be written again
}

/// Elements of any width: four at once where they are aligned and there, else one by one.
/// @param convert_four, convert_one  from what a leaf holds to floats
template <class Four, class One, class ConvertFour, class ConvertOne>
__device__ void read_elements(const Leaf* __restrict__ leaves, const Tile& tile, float4 (&values)[kBatch],
                              const ConvertFour& convert_four, const ConvertOne& convert_one) {
  const std::int64_t at = tile.begin + 4 * threadIdx.x;
  const std::int64_t left = tile.left();
  if (tile.is_aligned && left >= 4) {
    Four loaded[kBatch];
#pragma unroll
    for (int k = 0; k < kBatch; ++k) loaded[k] = __ldg(static_cast<const Four*>(leaves[k].values) + at / 4);
#pragma unroll
    for (int k = 0; k < kBatch; ++k) values[k] = convert_four(loaded[k]);
    return;
  }
#pragma unroll
  for (int k = 0; k < kBatch; ++k) {
    const One* first = static_cast<const One*>(leaves[k].values) + at;
    const auto element = [&](int j) { return j < left ? convert_one(__ldg(first + j)) : 0.0f; };
    values[k] = make_float4(element(0), element(1), element(2), element(3));
  }
}

template <>
__device__ void read_batch<LeafFormat::kFloat32>(const Leaf* __restrict__ leaves, int, const Tile& tile,
                                                 float4 (&values)[kBatch]) {
  read_elements<float4, float>(
      leaves, tile, values, [](const float4& four) { return four; }, [](float one) { return one; });
}

template <>
__device__ void read_batch<LeafFormat::kBfloat16>(const Leaf* __restrict__ leaves, int, const Tile& tile,
                                                  float4 (&values)[kBatch]) {
  const auto upper = [](std::uint32_t bits) { return __uint_as_float(bits & 0xffff0000u); };
  read_elements<uint2, std::uint16_t>(
      leaves, tile, values,
      [&](const uint2& four) {
        return make_float4(upper(four.x << 16), upper(four.x), upper(four.y << 16), upper(four.y));
      },
      [](std::uint16_t one) { return from_bfloat16(one); });
}

/// Sums of complete subtrees, at most one of each size, like the bits of a counter of leaves: level i holds 2^i of
/// them. Every index is a constant of the compiler's, so the levels are registers.
template <unsigned kLevels>
struct Subtrees {
  float4 of_level[kLevels] = {};

  /// Adds leaf `index`, after those before it.
  template <unsigned kLevel = 0>
  __device__ void push(unsigned index, const float4& value) {
    if constexpr (kLevel < kLevels) {
      if ((index >> kLevel & 1u) == 0) {
        of_level[kLevel] = value;
      } else {
        push<kLevel + 1>(index, sum_of(of_level[kLevel], value));
      }
    }
  }

  /// The sum of `count` leaves and what follows them in the tree, smaller subtrees first.
  /// @param rest  sum of what follows, if has_rest
  __device__ float4 sum(unsigned count, bool has_rest, float4 rest) const {
#pragma unroll
    for (unsigned level = 0; level < kLevels; ++level) {
      if ((count >> level & 1u) == 0) continue;
      rest = has_rest ? sum_of(of_level[level], rest) : of_level[level];
      has_rest = true;
    }
    return rest;
  }
};

/// The tree over a task's leaves.
template <LeafFormat kFormat, unsigned kLevels>
__device__ float4 tree_sum(const Leaf* __restrict__ leaves, unsigned num_leaves, const Tile& tile) {
  Subtrees<kLevels> batches;
  const unsigned num_batches = num_leaves / kBatch;
  for (unsigned batch = 0; batch < num_batches; ++batch) {
    float4 v[kBatch];
    read_batch<kFormat>(leaves + batch * kBatch, kBatch, tile, v);
    batches.push(
        batch, sum_of(sum_of(sum_of(v[0], v[1]), sum_of(v[2], v[3])), sum_of(sum_of(v[4], v[5]), sum_of(v[6], v[7]))));
  }
  const unsigned rest = num_leaves % kBatch;
  float4 sum_of_rest = make_float4(0, 0, 0, 0);
  if (rest != 0) {
    float4 v[kBatch];
    read_batch<kFormat>(leaves + num_batches * kBatch, static_cast<int>(rest), tile, v);
    Subtrees<3> singles;
#pragma unroll
    for (unsigned k = 0; k < kBatch - 1; ++k) {
      if (k < rest) singles.push(k, v[k]);
    }
    sum_of_rest = singles.sum(rest, false, sum_of_rest);
  }
  return batches.sum(num_batches, rest != 0, sum_of_rest);
}

/// Blocks that share a multiprocessor: as many as leave registers for a batch and the levels.
constexpr unsigned blocks_per_processor(unsigned levels) {
  return levels == kFewLevels ? 3 : levels == kSomeLevels ? 2 : 1;
}

template <LeafFormat kFormat, unsigned kLevels>
__global__ void __launch_bounds__(kThreads, blocks_per_processor(kLevels))
    tree_sum_kernel(const Task* __restrict__ tasks, std::int32_t num_tasks, const Leaf* __restrict__ leaves) {
  const Task& task = tasks[find_task(tasks, num_tasks, blockIdx.x)];
  const Tile tile = {(blockIdx.x - task.first_tile) * kTileElements, task.count, task.units, task.is_aligned != 0};
  const float4 sum = tree_sum<kFormat, kLevels>(leaves + task.first_leaf, static_cast<unsigned>(task.num_leaves), tile);
  const float scale = __uint_as_float(task.scale_bits);
  const auto scaled = [&](float value) { return with_canonical_nan(scale * value); };
  float* out = task.out + tile.begin;
  const auto count = static_cast<unsigned>(min(std::int64_t{kTileElements}, tile.count - tile.begin));
  store_group(out, 4 * threadIdx.x, count, reinterpret_cast<std::uintptr_t>(out) % sizeof(float4) == 0,
              make_float4(scaled(sum.x), scaled(sum.y), scaled(sum.z), scaled(sum.w)));
}

using Kernel = void (*)(const Task*, std::int32_t, const Leaf*);
constexpr unsigned kNumDepths = 3;
template <LeafFormat kFormat>
constexpr std::array<Kernel, kNumDepths> kKernelsFor = {
    tree_sum_kernel<kFormat, kFewLevels>, tree_sum_kernel<kFormat, kSomeLevels>, tree_sum_kernel<kFormat, kAllLevels>};

constexpr unsigned kNumFormats = 5;
constexpr unsigned kNumKinds = kNumDepths * kNumFormats;

/// The kernel for a task: its format and the levels it needs.
unsigned kind_of(const MeanTask& task) {
  const std::size_t batches = task.workers.size() / kBatch;
  const unsigned depth = batches < (1u << kFewLevels) ? 0 : batches < (1u << kSomeLevels) ? 1 : 2;
  return kNumDepths * static_cast<unsigned>(task.format) + depth;
}

Kernel kernel_of(unsigned kind) {
  constexpr std::array<std::array<Kernel, kNumDepths>, kNumFormats> kKernels = {
      kKernelsFor<LeafFormat::kFloat32>, kKernelsFor<LeafFormat::kBfloat16>, kKernelsFor<LeafFormat::kT2>,
      kKernelsFor<LeafFormat::kT5>, kKernelsFor<LeafFormat::kTMask>};
  return kKernels[kind / kNumDepths][kind % kNumDepths];
}

class Runner final : public TreeSumRunner {
 public:
  explicit Runner(const Device& device) : tasks_table_(device), leaves_table_(device) {}

  void run(std::span<const MeanTask> tasks, Stream& stream) override {
    tasks_.clear();
    leaves_.clear();
    std::array<std::size_t, kNumKinds + 1> first_task{};
    std::array<std::int64_t, kNumKinds> num_tiles{};
    for (unsigned kind = 0; kind < kNumKinds; ++kind) {
      for (const MeanTask& task : tasks) {
        if (kind_of(task) == kind && task.count > 0) num_tiles[kind] += append(task, num_tiles[kind]);
      }
      first_task[kind + 1] = tasks_.size();
    }
    const Task* on_device = tasks_table_.on_device(tasks_, stream);
    const Leaf* leaves = leaves_table_.on_device(leaves_, stream);
    for (unsigned kind = 0; kind < kNumKinds; ++kind) {
      const auto count = static_cast<std::int32_t>(first_task[kind + 1] - first_task[kind]);
      launch(kernel_of(kind), dim3(num_blocks_for(num_tiles[kind], 1)), dim3(kThreads), 0, stream,
             on_device + first_task[kind], count, leaves);
    }
  }

 private:
  /// @returns its tiles
  std::int64_t append(const MeanTask& task, std::int64_t first_tile) {
    TERNGRAD_REQUIRE(task.workers.size() <= std::size_t{kMaxTreeWorkers}, "[tree sum] a GPU adds up at most ",
                     kMaxTreeWorkers, " workers, got ", task.workers.size());
    const std::uintptr_t four_elements = task.format == LeafFormat::kBfloat16 ? sizeof(uint2) : sizeof(float4);
    const auto first_leaf = static_cast<std::int32_t>(leaves_.size());
    bool is_aligned = true;
    for (const MeanLeaf& leaf : task.workers) {
      leaves_.push_back({leaf.payload.data(), leaf.scalers});
      is_aligned = is_aligned && reinterpret_cast<std::uintptr_t>(leaf.payload.data()) % four_elements == 0;
    }
    if (leaves_.size() % kBatch != 0) leaves_.resize((leaves_.size() / kBatch + 1) * kBatch, leaves_.back());
    tasks_.push_back({first_tile, task.count, task.out, block_units(task.first, task.count, task.block_elements),
                      first_leaf, static_cast<std::int32_t>(task.workers.size()),
                      std::bit_cast<std::uint32_t>(task.scale), is_aligned ? 1u : 0u});
    return (task.count + kTileElements - 1) / kTileElements;
  }

  std::vector<Task> tasks_;   // by kind
  std::vector<Leaf> leaves_;  // a task's fill whole batches, the last repeated
  UploadedTable<Task> tasks_table_;
  UploadedTable<Leaf> leaves_table_;
};

}  // namespace

std::shared_ptr<TreeSumRunner> make_tree_sum_runner(const Device& device) { return std::make_shared<Runner>(device); }

}  // namespace terngrad::cuda
