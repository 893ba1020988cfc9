// Factors to begin with, drawn.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <span>

#include "kernels/tensor/philox.h"

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

}  // namespace terngrad
