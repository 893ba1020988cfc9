// Common parts of kernels that process tasks of many elements: finding a block's task, scales of blocks of elements,
// and stores of four elements.
#pragma once

#include <cuda_runtime.h>

#include <cstdint>

#include "kernels/codes/ternarize.h"
#include "kernels/runtime/errors.h"

namespace terngrad::cuda {

/// The task that contains tile `tile`: the last one with first_tile <= tile. Tables have one entry per task, not per
/// tile, because the host compares them in every step. The few steps of the search hit the first-level cache.
template <class Task>
__device__ int find_task(const Task* __restrict__ tasks, int num_tasks, std::int64_t tile) {
  int low = 0;
  int high = num_tasks;
  while (high - low > 1) {
    const int middle = (low + high) / 2;
    if (tasks[middle].first_tile <= tile) {
      low = middle;
    } else {
      high = middle;
    }
  }
  return low;
}

/// Position of a slice relative to blocks with one scale each, in units of kMinBlockElements.
struct BlockUnits {
  std::uint32_t first;        // offset of the slice in its segment
  std::uint32_t first_block;  // first block that the slice touches
  std::uint32_t block;        // block size; 0: one scale for all
  std::uint32_t reserved;     // zero, so that equal tasks are equal bytes
};

/// @throws InvalidArgument for a slice that ends beyond 2^38 elements
inline BlockUnits block_units(std::int64_t first, std::int64_t count, std::int64_t block_elements) {
  TERNGRAD_REQUIRE(first + count <= std::int64_t{1} << 38, "[cuda] a slice ends at element ", first + count,
                   " of its segment, kernels count to 2^38");
  if (block_elements == 0 || block_elements >= first + count) return {0, 0, 0, 0};
  return {static_cast<std::uint32_t>(first / kMinBlockElements), static_cast<std::uint32_t>(first / block_elements),
          static_cast<std::uint32_t>(block_elements / kMinBlockElements), 0};
}

/// Scale indices for a tile of at most kChunkElements elements.
struct TileBlocks {
  std::uint32_t first;       // scale index of the tile's first element
  std::uint32_t left;        // units from there to the next block
  std::uint32_t reciprocal;  // ceil(2^16 / units per block): quotients of numbers below 64 are exact

  /// @param tile_units  offset of the tile in the slice, in units of kMinBlockElements
  __device__ TileBlocks(const BlockUnits& units, std::uint32_t tile_units) : first(0), left(~0u), reciprocal(0) {
    if (units.block == 0) return;
    const std::uint32_t position = units.first + tile_units;
    const std::uint32_t block = position / units.block;
    first = block - units.first_block;
    left = (block + 1) * units.block - position;
    const std::uint32_t divisor = min(units.block, static_cast<std::uint32_t>(kChunkElements / kMinBlockElements));
    reciprocal = ((1u << 16) + divisor - 1) / divisor;
  }

  /// True if all elements of the tile have the same scale.
  __device__ bool is_one() const { return left >= static_cast<std::uint32_t>(kChunkElements / kMinBlockElements); }

  /// Scale index of an element. @param element  offset in the tile
  __device__ std::uint32_t of(unsigned element) const {
    const std::uint32_t unit = element / static_cast<std::uint32_t>(kMinBlockElements);
    return unit < left ? first : first + 1 + ((unit - left) * reciprocal >> 16);
  }
};

/// Replaces any NaN by canonical_nan(): GPU arithmetic produces a different one.
__device__ inline float with_canonical_nan(float value) {
  return value != value ? __uint_as_float(0x7fc00000u) : value;
}

/// Stores elements [first, first + 4) of `out`, limited to indices below `count`.
/// @param is_aligned  true if `out` begins at a multiple of 16 bytes; `first` is a multiple of 4
__device__ inline void store_group(float* out, unsigned first, unsigned count, bool is_aligned, const float4& values) {
  if (is_aligned && first + 4 <= count) {
    // Not a plain assignment, which the compiler would merge with the code below into four 32-bit stores.
    __stwb(reinterpret_cast<float4*>(out + first), values);
    return;
  }
  if (first < count) out[first] = values.x;
  if (first + 1 < count) out[first + 1] = values.y;
  if (first + 2 < count) out[first + 2] = values.z;
  if (first + 3 < count) out[first + 3] = values.w;
}

}  // namespace terngrad::cuda
