// Tree sums on a GPU: a thread adds up four neighbouring elements of all workers. Eight workers are one complete
// subtree; subtrees are combined like the bits of a binary counter.
#include "kernels/codes/cuda/tree_sum.h"

#include <cuda_runtime.h>

#include <array>
#include <bit>
#include <cstdint>
#include <vector>

#include "kernels/codes/cuda/leaf_reader.cuh"
#include "kernels/codes/cuda/tasks.cuh"
#include "kernels/runtime/cuda/launch.cuh"
#include "kernels/runtime/cuda/uploaded_table.h"

namespace terngrad::cuda {
namespace {

/// Levels of batches: for up to 15, 127 and all workers. Levels are registers.
constexpr unsigned kFewLevels = 1;
constexpr unsigned kSomeLevels = 4;
constexpr unsigned kAllLevels = 12;
static_assert(kLeafBatch * (1 << kAllLevels) - 1 == kMaxTreeWorkers, "the levels hold every number of whole batches");

struct Task {
  std::int64_t first_tile;
  std::int64_t count;
  float* out;
  BlockUnits units;
  std::int32_t first_leaf;
  std::int32_t num_leaves;
  std::uint32_t scale_bits;
  std::uint32_t is_aligned;   // whether four elements can be loaded at once from every leaf
  std::uint32_t two_scalers;  // whether scalers are pairs
  std::uint32_t reserved;     // zero, so that equal tasks are equal bytes
  std::int64_t first;         // of sides with columns: position in the segment
  std::int64_t columns;       // 0: none
};

__device__ float4 sum_of(const float4& a, const float4& b) {
  return make_float4(a.x + b.x, a.y + b.y, a.z + b.z, a.w + b.w);
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
__device__ float4 tree_sum(const TreeLeaf* __restrict__ leaves, unsigned num_leaves, const TreeTile& tile) {
  Subtrees<kLevels> batches;
  const unsigned num_batches = num_leaves / kLeafBatch;
  for (unsigned batch = 0; batch < num_batches; ++batch) {
    float4 v[kLeafBatch];
    read_batch<kFormat>(leaves + batch * kLeafBatch, kLeafBatch, tile, v);
    batches.push(
        batch, sum_of(sum_of(sum_of(v[0], v[1]), sum_of(v[2], v[3])), sum_of(sum_of(v[4], v[5]), sum_of(v[6], v[7]))));
  }
  const unsigned rest = num_leaves % kLeafBatch;
  float4 sum_of_rest = make_float4(0, 0, 0, 0);
  if (rest != 0) {
    float4 v[kLeafBatch];
    read_batch<kFormat>(leaves + num_batches * kLeafBatch, static_cast<int>(rest), tile, v);
    Subtrees<3> singles;
#pragma unroll
    for (unsigned k = 0; k < kLeafBatch - 1; ++k) {
      if (k < rest) singles.push(k, v[k]);
    }
    sum_of_rest = singles.sum(rest, false, sum_of_rest);
  }
  return batches.sum(num_batches, rest != 0, sum_of_rest);
}

/// Blocks that share a multiprocessor: as many as leave registers for a batch and the levels.
constexpr unsigned blocks_per_processor(LeafFormat format, unsigned levels) {
  if (format == LeafFormat::kSides) return levels == kFewLevels ? 2 : 1;
  return levels == kFewLevels ? 3 : levels == kSomeLevels ? 2 : 1;
}

template <LeafFormat kFormat, unsigned kLevels>
__global__ void __launch_bounds__(kTreeThreads, blocks_per_processor(kFormat, kLevels))
    tree_sum_kernel(const Task* __restrict__ tasks, std::int32_t num_tasks, const TreeLeaf* __restrict__ leaves) {
  const Task& task = tasks[find_task(tasks, num_tasks, blockIdx.x)];
  const TreeTile tile = {(blockIdx.x - task.first_tile) * kTreeTileElements,
                         task.count,
                         task.units,
                         task.is_aligned != 0,
                         task.two_scalers != 0,
                         task.first,
                         task.columns};
  const float4 sum = tree_sum<kFormat, kLevels>(leaves + task.first_leaf, static_cast<unsigned>(task.num_leaves), tile);
  const float scale = __uint_as_float(task.scale_bits);
  const auto scaled = [&](float value) { return with_canonical_nan(scale * value); };
  float* out = task.out + tile.begin;
  const auto count = static_cast<unsigned>(min(std::int64_t{kTreeTileElements}, tile.count - tile.begin));
  store_group(out, 4 * threadIdx.x, count, reinterpret_cast<std::uintptr_t>(out) % sizeof(float4) == 0,
              make_float4(scaled(sum.x), scaled(sum.y), scaled(sum.z), scaled(sum.w)));
}

using Kernel = void (*)(const Task*, std::int32_t, const TreeLeaf*);
constexpr unsigned kNumDepths = 3;
template <LeafFormat kFormat>
constexpr std::array<Kernel, kNumDepths> kKernelsFor = {
    tree_sum_kernel<kFormat, kFewLevels>, tree_sum_kernel<kFormat, kSomeLevels>, tree_sum_kernel<kFormat, kAllLevels>};

constexpr unsigned kNumFormats = 12;
constexpr unsigned kNumKinds = kNumDepths * kNumFormats;

/// The kernel for a task: its format and the levels it needs.
unsigned kind_of(const MeanTask& task) {
  const std::size_t batches = task.workers.size() / kLeafBatch;
  const unsigned depth = batches < (1u << kFewLevels) ? 0 : batches < (1u << kSomeLevels) ? 1 : 2;
  return kNumDepths * static_cast<unsigned>(task.format) + depth;
}

Kernel kernel_of(unsigned kind) {
  constexpr std::array<std::array<Kernel, kNumDepths>, kNumFormats> kKernels = {
      kKernelsFor<LeafFormat::kFloat32>, kKernelsFor<LeafFormat::kBfloat16>, kKernelsFor<LeafFormat::kT2>,
      kKernelsFor<LeafFormat::kT5>,      kKernelsFor<LeafFormat::kTMask>,    kKernelsFor<LeafFormat::kQ4>,
      kKernelsFor<LeafFormat::kQ8>,      kKernelsFor<LeafFormat::kE4M3>,     kKernelsFor<LeafFormat::kN8>,
      kKernelsFor<LeafFormat::kN4>,      kKernelsFor<LeafFormat::kBits>,     kKernelsFor<LeafFormat::kSides>};
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
    const TreeLeaf* leaves = leaves_table_.on_device(leaves_, stream);
    for (unsigned kind = 0; kind < kNumKinds; ++kind) {
      const auto count = static_cast<std::int32_t>(first_task[kind + 1] - first_task[kind]);
      launch(kernel_of(kind), dim3(num_blocks_for(num_tiles[kind], 1)), dim3(kTreeThreads), 0, stream,
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
    if (leaves_.size() % kLeafBatch != 0)
      leaves_.resize((leaves_.size() / kLeafBatch + 1) * kLeafBatch, leaves_.back());
    tasks_.push_back({first_tile, task.count, task.out, block_units(task.first, task.count, task.block_elements),
                      first_leaf, static_cast<std::int32_t>(task.workers.size()),
                      std::bit_cast<std::uint32_t>(task.scale), is_aligned ? 1u : 0u, task.two_scalers ? 1u : 0u, 0,
                      task.first, task.columns});
    return (task.count + kTreeTileElements - 1) / kTreeTileElements;
  }

  std::vector<Task> tasks_;       // by kind
  std::vector<TreeLeaf> leaves_;  // a task's fill whole batches, the last repeated
  UploadedTable<Task> tasks_table_;
  UploadedTable<TreeLeaf> leaves_table_;
};

}  // namespace

std::shared_ptr<TreeSumRunner> make_tree_sum_runner(const Device& device) { return std::make_shared<Runner>(device); }

}  // namespace terngrad::cuda
