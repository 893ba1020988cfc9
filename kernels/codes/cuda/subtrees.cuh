// What the kernels of tree sums share: their tasks, and the sums of complete subtrees.
#pragma once

#include <cuda_runtime.h>

#include <cstdint>

#include "kernels/codes/cuda/tasks.cuh"

namespace terngrad::cuda {

/// One worker's elements or codes.
struct TreeLeaf {
  const void* values;
  const float* scalers;
};

/// A tree sum's part of a launch.
struct TreeTask {
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

__device__ inline float4 sum_of(const float4& a, const float4& b) {
  return make_float4(a.x + b.x, a.y + b.y, a.z + b.z, a.w + b.w);
}

/// Sums of complete subtrees, at most one of each size, like the bits of a counter of leaves: level i holds 2^i of
/// them. Every index is a constant of the compiler's, so the levels are registers.
template <unsigned kLevels, class Value>
struct Subtrees {
  Value of_level[kLevels > 0 ? kLevels : 1] = {};

  /// Adds leaf `index`, after those before it.
  template <unsigned kLevel = 0>
  __device__ void push(unsigned index, const Value& value) {
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
  __device__ Value sum(unsigned count, bool has_rest, Value rest) const {
#pragma unroll
    for (unsigned level = 0; level < kLevels; ++level) {
      if ((count >> level & 1u) == 0) continue;
      rest = has_rest ? sum_of(of_level[level], rest) : of_level[level];
      has_rest = true;
    }
    return rest;
  }
};

}  // namespace terngrad::cuda
