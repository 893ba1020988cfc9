// bfloat16: the upper half of a float32.
#pragma once

#include <bit>
#include <cstdint>
#include <span>

#include "kernels/runtime/device.h"

namespace terngrad {

/// Rounds to nearest, ties to even. Infinity stays; NaN becomes a quiet NaN of the same sign; values that exceed the
/// largest bfloat16 by at least half a unit in its last place become infinity.
constexpr std::uint16_t to_bfloat16(float value) {
  const auto bits = std::bit_cast<std::uint32_t>(value);
  if ((bits & 0x7fffffffu) > 0x7f800000u) return static_cast<std::uint16_t>(bits >> 16 | 0x0040u);
  return static_cast<std::uint16_t>((bits + 0x7fffu + (bits >> 16 & 1)) >> 16);
}

/// Bit pattern of the smallest float32 magnitude that to_bfloat16 rounds to infinity.
inline constexpr std::uint32_t kFirstInfiniteBfloat16 = 0x7f7f8000u;

/// Exact conversion.
constexpr float from_bfloat16(std::uint16_t value) {
  return std::bit_cast<float>(static_cast<std::uint32_t>(value) << 16);
}

/// out[i] = to_bfloat16(values[i]). Asynchronous on a GPU's stream, where both spans are device memory.
/// @throws InvalidArgument if the lengths differ
void encode_bfloat16(std::span<const float> values, std::span<std::uint16_t> out, Stream& stream);
/// out[i] = from_bfloat16(values[i]). Otherwise like encode_bfloat16.
void decode_bfloat16(std::span<const std::uint16_t> values, std::span<float> out, Stream& stream);
/// values[i] = from_bfloat16(to_bfloat16(values[i])), in place.
void round_to_bfloat16(std::span<float> values, Stream& stream);

}  // namespace terngrad
