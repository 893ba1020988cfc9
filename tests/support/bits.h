// Bitwise comparison of floating-point results: operator== treats +0 and -0 as equal and NaN as unequal to itself.
#pragma once

#include <bit>
#include <cstdint>
#include <span>
#include <vector>

namespace terngrad::testing {

inline std::uint32_t bits_of(float value) { return std::bit_cast<std::uint32_t>(value); }

inline std::vector<std::uint32_t> bits_of(std::span<const float> values) {
  std::vector<std::uint32_t> bits;
  bits.reserve(values.size());
  for (const float value : values) bits.push_back(bits_of(value));
  return bits;
}

inline std::uint64_t bits_of(double value) { return std::bit_cast<std::uint64_t>(value); }

}  // namespace terngrad::testing
