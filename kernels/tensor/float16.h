// float16: IEEE 754 binary16, 1 sign, 5 exponent and 10 fraction bits.
#pragma once

#include <bit>
#include <cstdint>
#include <span>

#include "kernels/runtime/device.h"

namespace terngrad {

/// Rounds to nearest, ties to even (IEEE 754-2019, 3.4 and 5.4). Magnitudes from 65520 on become infinity; those below
/// 2^-14 are rounded to multiples of 2^-24 (subnormals); NaN becomes a quiet NaN of the same sign with the upper bits
/// of its payload.
constexpr std::uint16_t to_float16(float value) {
  constexpr std::uint32_t kMinNormal = 0x38800000u;  // 2^-14
  constexpr std::uint32_t kOverflow = 0x47800000u;   // 2^16; rounds to infinity below
  constexpr std::uint32_t kInfinity = 0x7f800000u;
  const auto bits = std::bit_cast<std::uint32_t>(value);
  const std::uint32_t magnitude = bits & 0x7fffffffu;
  // Rebias the exponent to 15. A carry out of the fraction correctly increments the exponent.
  const std::uint32_t clamped = magnitude < kOverflow ? magnitude : kOverflow;
  const std::uint32_t normal = (clamped - (112u << 23) + 0xfffu + (clamped >> 13 & 1)) >> 13;
  // In [0.5, 1) neighbors are 2^-24 apart, so this addition rounds to a multiple of 2^-24, ties to even.
  const float shifted = std::bit_cast<float>(magnitude) + 0.5f;
  const std::uint32_t subnormal = std::bit_cast<std::uint32_t>(shifted) - std::bit_cast<std::uint32_t>(0.5f);
  const std::uint32_t nan = 0x7e00u | (magnitude >> 13 & 0x3ffu);
  const std::uint32_t number = magnitude < kMinNormal ? subnormal : normal;
  return static_cast<std::uint16_t>((bits >> 16 & 0x8000u) | (magnitude > kInfinity ? nan : number));
}

/// Exact conversion; NaN becomes quiet.
constexpr float from_float16(std::uint16_t value) {
  constexpr std::uint32_t kMinNormal = 0x0400u;
  constexpr std::uint32_t kInfinity = 0x7c00u;
  const std::uint32_t magnitude = value & 0x7fffu;
  const std::uint32_t normal = (magnitude << 13) + (112u << 23);
  // A subnormal is its fraction times 2^-24, which is the unit in the last place of numbers in [0.5, 1).
  const float shifted = std::bit_cast<float>(magnitude | std::bit_cast<std::uint32_t>(0.5f)) - 0.5f;
  const auto subnormal = std::bit_cast<std::uint32_t>(shifted);
  const std::uint32_t special = magnitude << 13 | 0x7f800000u | (magnitude > kInfinity ? 0x00400000u : 0u);
  const std::uint32_t finite = magnitude < kMinNormal ? subnormal : normal;
  return std::bit_cast<float>((std::uint32_t{value} & 0x8000u) << 16 | (magnitude < kInfinity ? finite : special));
}

/// out[i] = to_float16(values[i]). Asynchronous on a GPU's stream, where both spans are device memory.
/// @throws InvalidArgument if the lengths differ
void encode_float16(std::span<const float> values, std::span<std::uint16_t> out, Stream& stream);
/// out[i] = from_float16(values[i]). Otherwise like encode_float16.
void decode_float16(std::span<const std::uint16_t> values, std::span<float> out, Stream& stream);
/// values[i] = from_float16(to_float16(values[i])), in place.
void round_to_float16(std::span<float> values, Stream& stream);

}  // namespace terngrad
