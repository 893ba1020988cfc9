// Sums of complete subtrees of a tree sum, in registers.
#pragma once

#include <cuda_runtime.h>

namespace terngrad::cuda {

__device__ inline float4 sum_of(const float4& a, const float4& b) {
  return make_float4(a.x + b.x, a.y + b.y, a.z + b.z, a.w + b.w);
}

/// Sums of complete subtrees, at most one per size, like the bits of a counter of leaves: level i holds the sum of 2^i
/// leaves. All indices are compile-time constants, so the levels stay in registers.
template <unsigned kLevels, class Value>
struct Subtrees {
  Value of_level[kLevels > 0 ? kLevels : 1] = {};

  /// Adds leaf `index`; leaves must be added in order.
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

  /// Sum of `count` leaves and the rest of the tree after them, smaller subtrees first.
  /// @param rest  sum of the rest, if has_rest
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
