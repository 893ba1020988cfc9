// Tree sums of ternary codes on a GPU. One block sums a chunk; each thread sums a word of 16 codes over all workers.
// Two workers' codes of an element form one of 16 pairs, whose sums are looked up in a table in shared memory. Results
// go through shared memory, so that neighboring threads scale and store neighboring elements.
#pragma once

#include <cuda_runtime.h>

#include <cstdint>

#include "kernels/codes/cuda/subtrees.cuh"
#include "kernels/codes/cuda/tasks.cuh"
#include "kernels/codes/cuda/tree_tasks.cuh"
#include "kernels/codes/cuda/word_reader.cuh"
#include "kernels/runtime/cuda/launch.cuh"

namespace terngrad::cuda {

/// Sums of consecutive elements of a word.
template <unsigned kElements>
struct WordValues {
  float of[kElements];
};

template <unsigned kElements>
__device__ WordValues<kElements> sum_of(const WordValues<kElements>& a, const WordValues<kElements>& b) {
  WordValues<kElements> sum;
#pragma unroll
  for (unsigned i = 0; i < kElements; ++i) sum.of[i] = a.of[i] + b.of[i];
  return sum;
}

/// Value of a leaf's code. A missing leaf counts as -0, which changes no sum: x + -0 is x for every x.
/// @param code       two's complement in the two lowest bits; higher bits are ignored
/// @param scaler_at  index of its scaler, or of the positive one of a pair
__device__ inline float leaf_value(const TreeLeaf& leaf, std::uint32_t code, std::uint32_t scaler_at, bool two_scalers,
                                   bool is_there) {
  const int value = code_at(code, 0);
  const float scaler = __ldg(leaf.scalers + scaler_at + (two_scalers && value < 0 ? 1 : 0));
  return is_there ? scaler * static_cast<float>(value) : -0.0f;
}

/// Table of the sums of all pairs of codes of leaves 2 i and 2 i + 1 of a batch; the first leaf's code is in the lower
/// index bits.
inline constexpr unsigned kPairs = 16;
inline constexpr unsigned kTableSize = kPayloadBatch / 2 * kPairs;

/// Entry `index` of a batch's table. @param left  number of remaining leaves, possibly more than eight
__device__ inline float table_entry(unsigned index, const TreeLeaf* __restrict__ leaves, std::uint32_t scaler_at,
                                    bool two_scalers, int left) {
  const int k = static_cast<int>(2 * (index / kPairs));
  return leaf_value(leaves[k], index, scaler_at, two_scalers, k < left) +
         leaf_value(leaves[k + 1], index / 4, scaler_at, two_scalers, k + 1 < left);
}

/// Sums a subtree of eight leaves, each with one scaler for all elements of the block.
/// @param words  one per leaf, codes from the lowest bits on
template <unsigned kElements>
__device__ WordValues<kElements> looked_up(const std::uint32_t (&words)[kPayloadBatch],
                                           const float (&table)[kTableSize]) {
  constexpr std::uint32_t kEven = 0x33333333u;
  WordValues<kElements> sums;
  // Pairs of codes in four bits each, for even and for odd elements.
  std::uint32_t even[kPayloadBatch / 2];
  std::uint32_t odd[kPayloadBatch / 2];
#pragma unroll
  for (int pair = 0; pair < kPayloadBatch / 2; ++pair) {
    const std::uint32_t first = words[2 * pair];
    const std::uint32_t second = words[2 * pair + 1];
    even[pair] = (first & kEven) | (second << 2 & ~kEven);
    odd[pair] = (first >> 2 & kEven) | (second & ~kEven);
  }
#pragma unroll
  for (unsigned i = 0; i < kElements; ++i) {
    const auto sum = [&](unsigned pair) {
      const std::uint32_t codes = i % 2 == 0 ? even[pair] : odd[pair];
      return table[pair * kPairs + (codes >> (4 * (i / 2)) & (kPairs - 1))];
    };
    sums.of[i] = (sum(0) + sum(1)) + (sum(2) + sum(3));
  }
  return sums;
}

/// The same if the scalers of a block's elements differ. A loop that shifts the sums along keeps the code short and
/// takes no registers from the common case.
template <unsigned kElements>
__device__ WordValues<kElements> subtree_of(std::uint32_t (&words)[kPayloadBatch], const TreeLeaf* __restrict__ leaves,
                                            std::uint32_t scaler_at, bool two_scalers, int left) {
  WordValues<kElements> sums = {};
#pragma unroll 1
  for (unsigned i = 0; i < kElements; ++i) {
    float values[kPayloadBatch];
#pragma unroll
    for (int k = 0; k < kPayloadBatch; ++k) {
      values[k] = leaf_value(leaves[k], words[k], scaler_at, two_scalers, k < left);
      words[k] >>= 2;
    }
#pragma unroll
    for (unsigned j = 0; j + 1 < kElements; ++j) sums.of[j] = sums.of[j + 1];
    sums.of[kElements - 1] =
        ((values[0] + values[1]) + (values[2] + values[3])) + ((values[4] + values[5]) + (values[6] + values[7]));
  }
  return sums;
}

/// Staging position, in groups, of group `group` of four elements of a chunk. Free of bank conflicts both for threads
/// that write their own four groups and for threads that read consecutive groups.
__device__ inline unsigned staged_place(unsigned group) { return group ^ (group >> 3 & 3u); }

/// Number of elements of a word that a thread sums in one pass, limited by the registers for a batch and the levels. If
/// below 16, words are reread from the first-level cache.
constexpr unsigned elements_at_once(unsigned levels) { return levels <= 1 ? 16 : 4; }

/// Resident blocks per multiprocessor.
constexpr int code_blocks_per_processor(unsigned levels) { return levels == 0 ? 3 : levels <= 4 ? 2 : 1; }

/// @tparam kLevels  levels of complete batches; 0: a single batch, possibly incomplete
template <TernaryFormat kFormat, unsigned kLevels>
__global__ void __launch_bounds__(kChunkWords, resident_blocks(code_blocks_per_processor(kLevels)))
    code_tree_sum_kernel(const TreeTask* __restrict__ tasks, std::int32_t num_tasks,
                         const TreeLeaf* __restrict__ leaves) {
  constexpr unsigned kElements = elements_at_once(kLevels);
  const TreeTask& task = tasks[find_task(tasks, num_tasks, blockIdx.x)];
  const std::int64_t chunk = blockIdx.x - task.first_tile;
  const std::int64_t begin = chunk * kChunkElements;
  const auto count = static_cast<unsigned>(min(kChunkElements, task.count - begin));
  const bool two_scalers = task.two_scalers != 0;

  const TileBlocks blocks(task.units, static_cast<std::uint32_t>(begin / kMinBlockElements));
  const std::uint32_t first_scaler = (two_scalers ? 2 : 1) * blocks.first;

  const WordReader<kFormat> reader(task.count, chunk);
  __shared__ float4 staged[kChunkElements / 4];
  // Double buffering: a table is overwritten only after all threads have finished with it.
  __shared__ float tables[2][kTableSize];
  unsigned turn = 0;
#pragma unroll 1
  for (unsigned first = 0; first < kCodesPerWord; first += kElements) {
    const TreeLeaf* of_batch = leaves + task.first_leaf;
    Subtrees<kLevels, WordValues<kElements>> batches;
    unsigned num_batches = 0;  // complete ones
    bool has_rest = false;
    WordValues<kElements> sum = {};
    int left = task.num_leaves;
#pragma unroll 1
    for (bool is_last = false; !is_last; left -= kPayloadBatch, of_batch += kPayloadBatch) {
      is_last = kLevels == 0 || left <= kPayloadBatch;
      std::uint32_t words[kPayloadBatch];
      reader.read([of_batch](int k) { return static_cast<const std::uint32_t*>(of_batch[k].values); }, left, words);
#pragma unroll
      for (int k = 0; k < kPayloadBatch; ++k) words[k] >>= 2 * first;
      if (blocks.is_one()) {
        float(&table)[kTableSize] = tables[turn++ % 2];
        if (threadIdx.x < kTableSize) {
          table[threadIdx.x] = table_entry(threadIdx.x, of_batch, first_scaler, two_scalers, left);
        }
        __syncthreads();
        sum = looked_up<kElements>(words, table);
      } else {
        // Threads past the end use the scaler of the chunk's first element.
        const unsigned element = kCodesPerWord * threadIdx.x;
        const std::uint32_t scaler_at = (two_scalers ? 2 : 1) * blocks.of(element < count ? element : 0);
        sum = subtree_of<kElements>(words, of_batch, scaler_at, two_scalers, left);
      }
      if constexpr (kLevels > 0) {
        // A complete last batch is a subtree like the ones before it.
        if (left >= kPayloadBatch) batches.push(num_batches++, sum);
        has_rest = left < kPayloadBatch;
      }
    }
    if constexpr (kLevels > 0) sum = batches.sum(num_batches, has_rest, sum);
#pragma unroll
    for (unsigned i = 0; i < kElements / 4; ++i) {
      staged[staged_place(4 * threadIdx.x + first / 4 + i)] =
          make_float4(sum.of[4 * i], sum.of[4 * i + 1], sum.of[4 * i + 2], sum.of[4 * i + 3]);
    }
  }
  __syncthreads();
  const float scale = __uint_as_float(task.scale_bits);
  float* out = task.out + begin;
  const bool is_aligned = reinterpret_cast<std::uintptr_t>(out) % sizeof(float4) == 0;
  const auto scaled_group = [&](unsigned group) {
    const float4 sums = staged[staged_place(group)];
    return make_float4(scale * sums.x, scale * sums.y, scale * sums.z, scale * sums.w);
  };
  const auto canonical = [](const float4& values) {
    return make_float4(with_canonical_nan(values.x), with_canonical_nan(values.y), with_canonical_nan(values.z),
                       with_canonical_nan(values.w));
  };
  if (is_aligned && count == kChunkElements) {
    float4 groups[4];
    bool has_nan = false;
#pragma unroll
    for (unsigned i = 0; i < 4; ++i) {
      groups[i] = scaled_group(i * kChunkWords + threadIdx.x);
      has_nan |= groups[i].x != groups[i].x || groups[i].y != groups[i].y || groups[i].z != groups[i].z ||
                 groups[i].w != groups[i].w;
    }
    if (has_nan) {
#pragma unroll
      for (float4& group : groups) group = canonical(group);
    }
#pragma unroll
    for (unsigned i = 0; i < 4; ++i) {
      __stwb(reinterpret_cast<float4*>(out) + i * kChunkWords + threadIdx.x, groups[i]);
    }
    return;
  }
#pragma unroll 1
  for (unsigned group = threadIdx.x; 4 * group < count; group += kChunkWords) {
    store_group(out, 4 * group, count, is_aligned, canonical(scaled_group(group)));
  }
}

}  // namespace terngrad::cuda
