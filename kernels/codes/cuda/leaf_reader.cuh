// Reads four consecutive elements of several leaves of a tree sum as floats, in any format.
#pragma once

#include <cuda_runtime.h>

#include <cstdint>

#include "kernels/codes/cuda/codes.cuh"
#include "kernels/codes/cuda/tasks.cuh"
#include "kernels/codes/cuda/tree_tasks.cuh"
#include "kernels/codes/tree_sum.h"
#include "kernels/statistics/codebook.h"
#include "kernels/tensor/bfloat16.h"

namespace terngrad::cuda {

/// Threads of a block, which sums a tile: four elements per thread.
inline constexpr unsigned kTreeThreads = 256;
inline constexpr unsigned kTreeTileElements = 4 * kTreeThreads;
/// Number of workers whose elements are loaded before the first is used.
inline constexpr int kLeafBatch = 8;

/// The part of a task that a block sums.
struct TreeTile {
  std::int64_t begin;
  std::int64_t count;  // elements of the task
  BlockUnits units;
  bool is_aligned;
  std::int64_t first;    // offset of the task in its segment
  std::int64_t columns;  // columns, for kSides

  /// Remaining elements of the task from this thread's first on; may be negative.
  __device__ std::int64_t left() const { return count - begin - 4 * threadIdx.x; }
};

/// Reads this thread's four elements of a batch of leaves; elements past the end and of missing leaves are unspecified.
/// Ternary codes have their own kernel (code_tree_sum.cuh).
/// @param leaves  kLeafBatch of them; missing ones repeat the last, so that no branch separates the loads
template <LeafFormat kFormat>
__device__ void read_batch(const TreeLeaf* __restrict__ leaves, const TreeTile& tile, float4 (&values)[kLeafBatch]);

/// Reads elements of any width: four at once if aligned and in range, else one by one.
/// @param convert_four, convert_one  conversions from the stored type to float
template <class Four, class One, class ConvertFour, class ConvertOne>
__device__ void read_elements(const TreeLeaf* __restrict__ leaves, const TreeTile& tile, float4 (&values)[kLeafBatch],
                              const ConvertFour& convert_four, const ConvertOne& convert_one) {
  const std::int64_t at = tile.begin + 4 * threadIdx.x;
  const std::int64_t left = tile.left();
  if (tile.is_aligned && left >= 4) {
    Four loaded[kLeafBatch];
#pragma unroll
    for (int k = 0; k < kLeafBatch; ++k) loaded[k] = __ldg(static_cast<const Four*>(leaves[k].values) + at / 4);
#pragma unroll
    for (int k = 0; k < kLeafBatch; ++k) values[k] = convert_four(loaded[k]);
    return;
  }
#pragma unroll
  for (int k = 0; k < kLeafBatch; ++k) {
    const One* first = static_cast<const One*>(leaves[k].values) + at;
    const auto element = [&](int j) { return j < left ? convert_one(__ldg(first + j)) : 0.0f; };
    values[k] = make_float4(element(0), element(1), element(2), element(3));
  }
}

template <>
__device__ inline void read_batch<LeafFormat::kFloat32>(const TreeLeaf* __restrict__ leaves, const TreeTile& tile,
                                                        float4 (&values)[kLeafBatch]) {
  read_elements<float4, float>(
      leaves, tile, values, [](const float4& four) { return four; }, [](float one) { return one; });
}

template <>
__device__ inline void read_batch<LeafFormat::kBfloat16>(const TreeLeaf* __restrict__ leaves, const TreeTile& tile,
                                                         float4 (&values)[kLeafBatch]) {
  const auto upper = [](std::uint32_t bits) { return __uint_as_float(bits & 0xffff0000u); };
  read_elements<uint2, std::uint16_t>(
      leaves, tile, values,
      [&](const uint2& four) {
        return make_float4(upper(four.x << 16), upper(four.x), upper(four.y << 16), upper(four.y));
      },
      [](std::uint16_t one) { return from_bfloat16(one); });
}

/// Reads codes with a factor per block.
/// @param unit_of  computes the factor from a scaler
/// @param value_of  value of code `place` of four, as a float
template <unsigned kBits, class UnitOf, class ValueOf>
__device__ void read_codes(const TreeLeaf* __restrict__ leaves, const TreeTile& tile, float4 (&values)[kLeafBatch],
                           const UnitOf& unit_of, const ValueOf& value_of) {
  const TileBlocks blocks(tile.units, static_cast<std::uint32_t>(tile.begin / kMinBlockElements));
  // Threads past the end read the tile's first element.
  const unsigned element = tile.left() > 0 ? 4 * threadIdx.x : 0;
  const std::uint32_t scaler_index = blocks.of(element);
  std::uint32_t fours[kLeafBatch];
  float units[kLeafBatch];
#pragma unroll
  for (int k = 0; k < kLeafBatch; ++k) {
    fours[k] = four_codes<kBits>(leaves[k].values, tile.begin + element);
    units[k] = __ldg(leaves[k].scalers + scaler_index);
  }
#pragma unroll
  for (int k = 0; k < kLeafBatch; ++k) {
    const float unit = unit_of(units[k]);
    const auto value = [&](unsigned place) { return unit * value_of(fours[k], place); };
    values[k] = make_float4(value(0), value(1), value(2), value(3));
  }
}

/// q4 and q8 codes: value = fl(scaler / L) * code.
template <unsigned kBits>
__device__ void read_levels(const TreeLeaf* __restrict__ leaves, const TreeTile& tile, float4 (&values)[kLeafBatch]) {
  constexpr auto kLevels = static_cast<float>((1u << kBits) / 2 - 1);
  read_codes<kBits>(
      leaves, tile, values, [](float scaler) { return __fdiv_rn(scaler, kLevels); },
      [](std::uint32_t four, unsigned place) { return static_cast<float>(level_at<kBits>(four, place)); });
}

template <>
__device__ inline void read_batch<LeafFormat::kQ4>(const TreeLeaf* __restrict__ leaves, const TreeTile& tile,
                                                   float4 (&values)[kLeafBatch]) {
  read_levels<4>(leaves, tile, values);
}

template <>
__device__ inline void read_batch<LeafFormat::kQ8>(const TreeLeaf* __restrict__ leaves, const TreeTile& tile,
                                                   float4 (&values)[kLeafBatch]) {
  read_levels<8>(leaves, tile, values);
}

template <>
__device__ inline void read_batch<LeafFormat::kE4M3>(const TreeLeaf* __restrict__ leaves, const TreeTile& tile,
                                                     float4 (&values)[kLeafBatch]) {
  read_codes<8>(
      leaves, tile, values, [](float scaler) { return scaler; },
      [](std::uint32_t four, unsigned place) {
        // With exponent and fraction at a float32's bit positions, the exponent is too small by 120, also for
        // subnormals: multiply by 2^120.
        const std::uint32_t code = four >> (8 * place) & 0xffu;
        const float magnitude = __uint_as_float((code & 0x7fu) << 20) * 0x1p120f;
        return code >= 0x80u ? -magnitude : magnitude;
      });
}

/// Powers of two: value = scaler * power.
template <unsigned kBits>
__device__ void read_exponents(const TreeLeaf* __restrict__ leaves, const TreeTile& tile,
                               float4 (&values)[kLeafBatch]) {
  read_codes<kBits>(
      leaves, tile, values, [](float scaler) { return scaler; },
      [](std::uint32_t four, unsigned place) {
        constexpr std::uint32_t kSign = 1u << (kBits - 1);
        // 2^(e - 127) for 8 bits, 2^(e - 7) for 4.
        constexpr std::uint32_t kLowest = 127 - (kSign - 1);
        const std::uint32_t code = four >> (kBits * place) & (2 * kSign - 1);
        const std::uint32_t magnitude = code & (kSign - 1);
        if (magnitude == 0) return 0.0f;
        return __uint_as_float((magnitude + kLowest) << 23 | (code & kSign) << (32 - kBits));
      });
}

template <>
__device__ inline void read_batch<LeafFormat::kN8>(const TreeLeaf* __restrict__ leaves, const TreeTile& tile,
                                                   float4 (&values)[kLeafBatch]) {
  read_exponents<8>(leaves, tile, values);
}

template <>
__device__ inline void read_batch<LeafFormat::kN4>(const TreeLeaf* __restrict__ leaves, const TreeTile& tile,
                                                   float4 (&values)[kLeafBatch]) {
  read_exponents<4>(leaves, tile, values);
}

template <>
__device__ inline void read_batch<LeafFormat::kBits>(const TreeLeaf* __restrict__ leaves, const TreeTile& tile,
                                                     float4 (&values)[kLeafBatch]) {
  read_codes<1>(
      leaves, tile, values, [](float scaler) { return scaler; },
      [](std::uint32_t four, unsigned place) { return (four >> place & 1u) != 0 ? -1.0f : 1.0f; });
}

/// Returns values[at % kCount]. Registers cannot be indexed, so each bit of `at`, the lowest first, halves the choice.
template <unsigned kCount>
__device__ float selected(const float (&values)[kCount], std::uint32_t at) {
  if constexpr (kCount == 1) {
    return values[0];
  } else {
    float halves[kCount / 2];
#pragma unroll
    for (unsigned i = 0; i < kCount / 2; ++i) halves[i] = (at & 1u) != 0 ? values[2 * i + 1] : values[2 * i];
    return selected(halves, at >> 1);
  }
}

/// Levels of a codebook: value = scaler * level.
template <unsigned kBits>
__device__ void read_codebook(const TreeLeaf* __restrict__ leaves, const TreeTile& tile, float4 (&values)[kLeafBatch]) {
  constexpr unsigned kMagnitudes = 1u << (kBits - 1);
  read_codes<kBits>(
      leaves, tile, values, [](float scaler) { return scaler; },
      [](std::uint32_t four, unsigned place) {
        const std::uint32_t code = four >> (kBits * place) & (2 * kMagnitudes - 1);
        constexpr Codebook kBook = codebook(2 * kMagnitudes);
        float levels[kMagnitudes];
#pragma unroll
        for (unsigned k = 0; k < kMagnitudes; ++k) levels[k] = kBook.values[k];
        const float magnitude = selected(levels, code);
        return code >= kMagnitudes ? -magnitude : magnitude;
      });
}

template <>
__device__ inline void read_batch<LeafFormat::kE2>(const TreeLeaf* __restrict__ leaves, const TreeTile& tile,
                                                   float4 (&values)[kLeafBatch]) {
  read_codebook<2>(leaves, tile, values);
}

template <>
__device__ inline void read_batch<LeafFormat::kE3>(const TreeLeaf* __restrict__ leaves, const TreeTile& tile,
                                                   float4 (&values)[kLeafBatch]) {
  read_codebook<3>(leaves, tile, values);
}

template <>
__device__ inline void read_batch<LeafFormat::kE4>(const TreeLeaf* __restrict__ leaves, const TreeTile& tile,
                                                   float4 (&values)[kLeafBatch]) {
  read_codebook<4>(leaves, tile, values);
}

/// Signs with a scaler for each sign: each of the four elements may have another pair.
template <>
__device__ inline void read_batch<LeafFormat::kSides>(const TreeLeaf* __restrict__ leaves, const TreeTile& tile,
                                                      float4 (&values)[kLeafBatch]) {
  // Threads past the end read the tile's first element.
  const unsigned element = tile.left() > 0 ? 4 * threadIdx.x : 0;
  const TileBlocks blocks(tile.units, static_cast<std::uint32_t>(tile.begin / kMinBlockElements));
  std::int64_t pairs[4];
  if (tile.columns == 0) {
    pairs[0] = pairs[1] = pairs[2] = pairs[3] = blocks.of(element);
  } else {
    pairs[0] = (tile.first + tile.begin + element) % tile.columns;
#pragma unroll
    for (int i = 1; i < 4; ++i) pairs[i] = pairs[i - 1] + 1 == tile.columns ? 0 : pairs[i - 1] + 1;
  }
#pragma unroll
  for (int k = 0; k < kLeafBatch; ++k) {
    const std::uint32_t four = four_codes<1>(leaves[k].values, tile.begin + element);
    const float* scalers = leaves[k].scalers;
    const auto value = [&](unsigned place) {
      const bool is_negative = (four >> place & 1u) != 0;
      const float scaler = __ldg(scalers + 2 * pairs[place] + (is_negative ? 0 : 1));
      return is_negative ? scaler * -1.0f : scaler;
    };
    values[k] = make_float4(value(0), value(1), value(2), value(3));
  }
}

}  // namespace terngrad::cuda
