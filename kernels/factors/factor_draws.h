// Initial factors of a step: drawn at random, or rescaled from the previous step.
#pragma once

#include <array>
#include <bit>
#include <cstddef>
#include <cstdint>
#include <span>

#include "kernels/random/philox.h"

namespace terngrad {

/// Element `index` of a random factor: (a + b + c + d - 131070) 2^-16 from the 16-bit draws 4 index to 4 index + 3.
/// Nearly normal with mean 0 and variance 1/3; the same bits on every backend.
/// @param key    worker 0, DrawPurpose::kFactorInit
/// @param index  draw offset of the tensor + position in Q^T [rank][columns]
constexpr float draw_factor_element(const DrawKey& key, std::uint64_t index) {
  // The four draws are half of a Philox block.
  const std::array<std::uint32_t, 4> block = draw_block(key, index / 2);
  const std::uint32_t low = block[index % 2 * 2];
  const std::uint32_t high = block[index % 2 * 2 + 1];
  const std::uint32_t sum = (low & 0xffffu) + (low >> 16) + (high & 0xffffu) + (high >> 16);
  return static_cast<float>(static_cast<std::int32_t>(sum) - 131070) * 0x1p-16f;
}

/// Fills `out` with consecutive elements of a random factor. @param first  index of the first element
inline void draw_factor(const DrawKey& key, std::uint64_t first, std::span<float> out) {
  for (std::size_t i = 0; i < out.size(); ++i) out[i] = draw_factor_element(key, first + i);
}

/// Power of two that scales a kept column to magnitudes below 2 at any scale of the gradient: without it P = M Q would
/// grow with the square of the gradient. Directions, and so the bits of the orthonormal P, are unchanged.
/// @param max_bits  bit pattern of the column's largest magnitude, not 0; NaN and infinity give scale 1
constexpr double kept_factor_scale(std::uint32_t max_bits) {
  if (max_bits >= 0x7f800000u) return 1;
  const std::uint64_t bits = std::bit_cast<std::uint64_t>(static_cast<double>(std::bit_cast<float>(max_bits)));
  return std::bit_cast<double>((2046 - (bits >> 52)) << 52);
}

/// Element of a kept column times the column's scale.
constexpr float scaled_factor_element(float value, double scale) {
  return static_cast<float>(static_cast<double>(value) * scale);
}

}  // namespace terngrad
