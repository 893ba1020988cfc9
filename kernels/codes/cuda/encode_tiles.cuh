// Common parts of encoding kernels: the tile that a block encodes, and loading elements.
#pragma once

#include <cuda_runtime.h>

#include <cstdint>

#include "kernels/tensor/cuda/elements.cuh"
#include "kernels/tensor/slice.h"

namespace terngrad::cuda {

/// Threads that encode a chunk together. Each has 16 elements in two runs of 8, for which one Philox block has the
/// bits.
inline constexpr unsigned kEncodeThreads = 256;
inline constexpr int kRunElements = 8;
static_assert(kEncodeThreads * 2 * kRunElements == kChunkElements, "a block covers a chunk");

/// A group of chunks of a job, and the scaler index of its first element. Precomputed by the host, so that kernels need
/// no 64-bit divisions.
struct EncodeTile {
  std::int32_t job;
  std::int32_t group;
  std::int64_t first_scaler;  // index of the first element's scaler
  std::int64_t into_block;    // the first element's offset in its block
};

/// Index of an element's scaler among its job's scalers.
/// @param block_elements  block size of the job
/// @param offset          offset of the element in the tile
__device__ inline std::int64_t scaler_index(std::int64_t block_elements, const EncodeTile& tile, unsigned offset) {
  if (block_elements == 0) return 0;
  const std::int64_t at = tile.into_block + offset;
  if (block_elements > 0x7fffffff) return tile.first_scaler + (at >= block_elements ? 1 : 0);
  return tile.first_scaler + static_cast<unsigned>(at) / static_cast<unsigned>(block_elements);
}

/// Tile for group `group` of `group_elements` elements of a task.
template <class Task>
EncodeTile encode_tile(const Task& task, std::int32_t job, std::int64_t group, std::int64_t group_elements) {
  EncodeTile tile = {job, static_cast<std::int32_t>(group), 0, 0};
  if (task.block_elements > 0) {
    const std::int64_t position = task.first + group * group_elements;
    tile.first_scaler = position / task.block_elements - task.first / task.block_elements;
    tile.into_block = position % task.block_elements;
  }
  return tile;
}

/// Loads the 8 elements of a run, zeros beyond the end.
__device__ inline void load_run(const float* __restrict__ values, std::int64_t count, float (&g)[kRunElements]) {
  if (count >= kRunElements && is_vector_aligned(values)) {
    const auto* vectors = reinterpret_cast<const float4*>(values);
    const float4 low = __ldg(vectors);
    const float4 high = __ldg(vectors + 1);
    g[0] = low.x, g[1] = low.y, g[2] = low.z, g[3] = low.w;
    g[4] = high.x, g[5] = high.y, g[6] = high.z, g[7] = high.w;
    return;
  }
#pragma unroll
  for (int i = 0; i < kRunElements; ++i) g[i] = i < count ? values[i] : 0.0f;
}

/// The same for 16-bit elements.
template <class Element>
__device__ void load_run(const Element* __restrict__ values, std::int64_t count, float (&g)[kRunElements]) {
  static_assert(kRunElements * sizeof(Element) == kVectorBytes, "a run is one vector");
  if (count >= kRunElements && is_vector_aligned(values)) {
    const uint4 vector = __ldg(reinterpret_cast<const uint4*>(values));
    const std::uint32_t words[kRunElements / 2] = {vector.x, vector.y, vector.z, vector.w};
#pragma unroll
    for (int i = 0; i < kRunElements / 2; ++i) {
      const float2 pair = widened_pair<Element>(words[i]);
      g[2 * i] = pair.x;
      g[2 * i + 1] = pair.y;
    }
    return;
  }
#pragma unroll
  for (int i = 0; i < kRunElements; ++i) g[i] = i < count ? widened(values[i]) : 0.0f;
}

}  // namespace terngrad::cuda
