// Factors to begin with: drawn, or kept ones brought to the same scale.
#pragma once

#include <array>
#include <bit>
#include <cstddef>
#include <cstdint>
#include <span>

#include "kernels/random/philox.h"

namespace terngrad {

/// Element `index` of a drawn factor: (a + b + c + d - 131070) 2^-16 of four draws of 16 bits, of draws 4 index to
/// 4 index + 3: nearly normal, with mean 0 and variance 1/3, and the same bits everywhere.
/// @param key    of a worker 0, DrawPurpose::kFactorInit
/// @param index  draw offset of the tensor + place in Q^T [rank][columns]
constexpr float draw_factor_element(const DrawKey& key, std::uint64_t index) {
  // The four are half of a block.
  const std::array<std::uint32_t, 4> block = draw_block(key, index / 2);
  const std::uint32_t low = block[index % 2 * 2];
  const std::uint32_t high = block[index % 2 * 2 + 1];
  const std::uint32_t sum = (low & 0xffffu) + (low >> 16) + (high & 0xffffu) + (high >> 16);
  return static_cast<float>(static_cast<std::int32_t>(sum) - 131070) * 0x1p-16f;
}

/// Elements of a drawn factor. @param first  index of the first
inline void draw_factor(const DrawKey& key, std::uint64_t first, std::span<float> out) {
  for (std::size_t i = 0; i < out.size(); ++i) out[i] = draw_factor_element(key, first + i);
}

/// The power of two that brings a kept column to magnitudes below 2, whatever the gradient's scale: P = M Q would grow
/// with its square. Directions, and so the bits of the orthonormal P, stay.
/// @param max_bits  the bits of the column's largest magnitude, positive; NaN and infinity give 1
constexpr double kept_factor_scale(std::uint32_t max_bits) {
  if (max_bits >= 0x7f800000u) return 1;
  const std::uint64_t bits = std::bit_cast<std::uint64_t>(static_cast<double>(std::bit_cast<float>(max_bits)));
  return std::bit_cast<double>((2046 - (bits >> 52)) << 52);
}

/// An element of a kept column with the scale of its column.
constexpr float scaled_factor_element(float value, double scale) {
  return static_cast<float>(static_cast<double>(value) * scale);
}

}  // namespace terngrad
