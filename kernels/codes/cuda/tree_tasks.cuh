// Task tables for the tree-sum kernels.
#pragma once

#include <cuda_runtime.h>

#include <cstdint>

#include "kernels/codes/cuda/tasks.cuh"

namespace terngrad::cuda {

/// Elements or codes of one worker.
struct TreeLeaf {
  const void* values;
  const float* scalers;
};

/// A tree sum within a launch.
struct TreeTask {
  std::int64_t first_tile;
  std::int64_t count;
  float* out;
  BlockUnits units;
  std::int32_t first_leaf;
  std::int32_t num_leaves;
  std::uint32_t scale_bits;
  std::uint32_t is_aligned;   // nonzero if four elements can be loaded at once from every leaf
  std::uint32_t two_scalers;  // nonzero if scalers are pairs
  std::uint32_t reserved;     // zero, so that equal tasks are equal bytes
  std::int64_t first;         // kSides with columns: offset in the segment
  std::int64_t columns;       // 0: none
};

}  // namespace terngrad::cuda
