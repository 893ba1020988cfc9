// Tree sums on a GPU: a thread sums four consecutive elements over all workers, or 16 ternary codes. Eight workers form
// a complete subtree; subtrees are combined like the bits of a binary counter.
#include "kernels/codes/cuda/tree_sum.h"

#include <cuda_runtime.h>

#include <array>
#include <bit>
#include <cstdint>
#include <vector>

#include "kernels/codes/cuda/code_tree_sum.cuh"
#include "kernels/codes/cuda/leaf_reader.cuh"
#include "kernels/codes/cuda/subtrees.cuh"
#include "kernels/codes/cuda/tasks.cuh"
#include "kernels/codes/cuda/tree_tasks.cuh"
#include "kernels/runtime/cuda/launch.cuh"
#include "kernels/runtime/cuda/uploaded_table.h"

namespace terngrad::cuda {
namespace {

/// Levels of batches: for up to 15, 127 and all workers. Each level takes registers.
constexpr unsigned kFewLevels = 1;
constexpr unsigned kSomeLevels = 4;
constexpr unsigned kAllLevels = 12;
static_assert(kLeafBatch * (1 << kAllLevels) - 1 == kMaxTreeWorkers, "the levels hold every number of whole batches");

/// Sums the tree over a task's leaves.
template <LeafFormat kFormat, unsigned kLevels>
__device__ float4 tree_sum(const TreeLeaf* __restrict__ leaves, unsigned num_leaves, const TreeTile& tile) {
  Subtrees<kLevels, float4> batches;
  const unsigned num_batches = num_leaves / kLeafBatch;
  for (unsigned batch = 0; batch < num_batches; ++batch) {
    float4 v[kLeafBatch];
    read_batch<kFormat>(leaves + batch * kLeafBatch, tile, v);
    batches.push(
        batch, sum_of(sum_of(sum_of(v[0], v[1]), sum_of(v[2], v[3])), sum_of(sum_of(v[4], v[5]), sum_of(v[6], v[7]))));
  }
  const unsigned rest = num_leaves % kLeafBatch;
  float4 sum_of_rest = make_float4(0, 0, 0, 0);
  if (rest != 0) {
    float4 v[kLeafBatch];
    read_batch<kFormat>(leaves + num_batches * kLeafBatch, tile, v);
    Subtrees<3, float4> singles;
#pragma unroll
    for (unsigned k = 0; k < kLeafBatch - 1; ++k) {
      if (k < rest) singles.push(k, v[k]);
    }
    sum_of_rest = singles.sum(rest, false, sum_of_rest);
  }
  return batches.sum(num_batches, rest != 0, sum_of_rest);
}

/// Resident blocks per multiprocessor, limited by the registers for a batch and the levels.
constexpr int blocks_per_processor(LeafFormat format, unsigned levels) {
  if (format == LeafFormat::kSides) return levels == kFewLevels ? 2 : 1;
  return levels == kFewLevels ? 3 : levels == kSomeLevels ? 2 : 1;
}

template <LeafFormat kFormat, unsigned kLevels>
__global__ void __launch_bounds__(kTreeThreads, resident_blocks(blocks_per_processor(kFormat, kLevels)))
    tree_sum_kernel(const TreeTask* __restrict__ tasks, std::int32_t num_tasks, const TreeLeaf* __restrict__ leaves) {
  const TreeTask& task = tasks[find_task(tasks, num_tasks, blockIdx.x)];
  const TreeTile tile = {(blockIdx.x - task.first_tile) * kTreeTileElements,
                         task.count,
                         task.units,
                         task.is_aligned != 0,
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

using Kernel = void (*)(const TreeTask*, std::int32_t, const TreeLeaf*);
/// Kernel variants: for one batch, complete or not, and for each number of levels.
constexpr unsigned kNumDepths = 4;
template <LeafFormat kFormat>
constexpr std::array<Kernel, kNumDepths> kKernelsFor = {
    tree_sum_kernel<kFormat, kFewLevels>, tree_sum_kernel<kFormat, kFewLevels>, tree_sum_kernel<kFormat, kSomeLevels>,
    tree_sum_kernel<kFormat, kAllLevels>};
template <TernaryFormat kFormat>
constexpr std::array<Kernel, kNumDepths> kCodeKernelsFor = {
    code_tree_sum_kernel<kFormat, 0>, code_tree_sum_kernel<kFormat, kFewLevels>,
    code_tree_sum_kernel<kFormat, kSomeLevels>, code_tree_sum_kernel<kFormat, kAllLevels>};

constexpr unsigned kNumFormats = 15;
constexpr unsigned kNumKinds = kNumDepths * kNumFormats;

/// Elements that one block sums.
std::int64_t tile_elements(unsigned kind) {
  const auto format = static_cast<LeafFormat>(kind / kNumDepths);
  const bool is_ternary = format == LeafFormat::kT2 || format == LeafFormat::kT5 || format == LeafFormat::kTMask;
  return is_ternary ? kChunkElements : std::int64_t{kTreeTileElements};
}

/// Index of the kernel for a task, by format and required levels.
unsigned kind_of(const MeanTask& task) {
  const std::size_t batches = task.workers.size() / kLeafBatch;
  const unsigned depth = task.workers.size() <= kLeafBatch ? 0
                         : batches < (1u << kFewLevels)    ? 1
                         : batches < (1u << kSomeLevels)   ? 2
                                                           : 3;
  return kNumDepths * static_cast<unsigned>(task.format) + depth;
}

Kernel kernel_of(unsigned kind) {
  constexpr std::array<std::array<Kernel, kNumDepths>, kNumFormats> kKernels = {
      kKernelsFor<LeafFormat::kFloat32>,   kKernelsFor<LeafFormat::kBfloat16>,     kCodeKernelsFor<TernaryFormat::kT2>,
      kCodeKernelsFor<TernaryFormat::kT5>, kCodeKernelsFor<TernaryFormat::kTMask>, kKernelsFor<LeafFormat::kQ4>,
      kKernelsFor<LeafFormat::kQ8>,        kKernelsFor<LeafFormat::kE4M3>,         kKernelsFor<LeafFormat::kN8>,
      kKernelsFor<LeafFormat::kN4>,        kKernelsFor<LeafFormat::kBits>,         kKernelsFor<LeafFormat::kE2>,
      kKernelsFor<LeafFormat::kE3>,        kKernelsFor<LeafFormat::kE4>,           kKernelsFor<LeafFormat::kSides>};
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
        if (kind_of(task) == kind && task.count > 0)
          num_tiles[kind] += append(task, num_tiles[kind], tile_elements(kind));
      }
      first_task[kind + 1] = tasks_.size();
    }
    const TreeTask* on_device = tasks_table_.on_device(tasks_, stream);
    const TreeLeaf* leaves = leaves_table_.on_device(leaves_, stream);
    for (unsigned kind = 0; kind < kNumKinds; ++kind) {
      const auto count = static_cast<std::int32_t>(first_task[kind + 1] - first_task[kind]);
      launch(kernel_of(kind), dim3(num_blocks_for(num_tiles[kind], 1)), dim3(kTreeThreads), 0, stream,
             on_device + first_task[kind], count, leaves);
    }
  }

 private:
  /// @returns the number of tiles
  std::int64_t append(const MeanTask& task, std::int64_t first_tile, std::int64_t elements) {
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
    return (task.count + elements - 1) / elements;
  }

  std::vector<TreeTask> tasks_;   // ordered by kind
  std::vector<TreeLeaf> leaves_;  // per task padded to whole batches with the last one
  UploadedTable<TreeTask> tasks_table_;
  UploadedTable<TreeLeaf> leaves_table_;
};

}  // namespace

std::shared_ptr<TreeSumRunner> make_tree_sum_runner(const Device& device) { return std::make_shared<Runner>(device); }

}  // namespace terngrad::cuda
