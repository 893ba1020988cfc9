// Tests of the conversions between float32 and 16-bit types on a GPU: bit-identical to the CPU.
#pragma once

#include <gtest/gtest.h>

#include <bit>
#include <cstdint>
#include <random>
#include <span>
#include <vector>

#include "support/bits.h"
#include "support/gradients.h"
#include "support/guarded_array.h"

namespace terngrad::testing {

struct Conversion {
  void (*encode)(std::span<const float>, std::span<std::uint16_t>, Stream&);
  void (*decode)(std::span<const std::uint16_t>, std::span<float>, Stream&);
  void (*round)(std::span<float>, Stream&);
};

/// Compares encode, decode and round on both backends. Buffers start `float_start` and `half_start` elements after an
/// aligned address.
inline void expect_same_conversion(const Conversion& conversion, std::span<const float> values, std::size_t float_start,
                                   std::size_t half_start) {
  Stream cpu(Device::cpu(), 1);
  Stream cuda(Device::cuda());
  const std::size_t n = values.size();
  std::vector<std::uint16_t> halves(n);
  std::vector<float> decoded(n);
  std::vector<float> rounded(values.begin(), values.end());
  conversion.encode(values, halves, cpu);
  conversion.decode(halves, decoded, cpu);
  conversion.round(rounded, cpu);

  GuardedArray<float> on_device(values, float_start, cuda);
  GuardedArray<std::uint16_t> halves_on_device(std::vector<std::uint16_t>(n), half_start, cuda);
  GuardedArray<float> decoded_on_device(std::vector<float>(n), float_start, cuda);
  conversion.encode(on_device.span(), halves_on_device.span(), cuda);
  conversion.decode(halves_on_device.span(), decoded_on_device.span(), cuda);
  conversion.round(on_device.span(), cuda);
  ASSERT_EQ(halves_on_device.values(), halves);
  ASSERT_EQ(bits_of(decoded_on_device.values()), bits_of(decoded));
  ASSERT_EQ(bits_of(on_device.values()), bits_of(rounded));
}

inline void expect_same_at_ragged_lengths(const Conversion& conversion) {
  std::vector<std::size_t> lengths;
  for (std::size_t n = 0; n <= 70; ++n) lengths.push_back(n);
  lengths.insert(lengths.end(), {2047, 2048, 2049, 4095, 4096, 4097, 8193});
  for (const std::size_t n : lengths) {
    const std::vector<float> values = gaussian(n, n);
    for (std::size_t float_start = 0; float_start < 4; ++float_start) {
      // A float at byte 4 of 16 is as misaligned as a half at byte 2 of 8. Tests all pairs, equally misaligned or not.
      for (std::size_t half_start = 0; half_start < (n < 20 || n > 70 ? 8u : 1u); ++half_start) {
        SCOPED_TRACE("length " + std::to_string(n) + ", starts " + std::to_string(float_start) + " and " +
                     std::to_string(half_start));
        expect_same_conversion(conversion, values, float_start, half_start);
        if (::testing::Test::HasFailure()) return;
      }
    }
  }
}

inline void expect_same_decoding(const Conversion& conversion) {
  std::vector<std::uint16_t> halves(65536);
  for (std::size_t i = 0; i < halves.size(); ++i) halves[i] = static_cast<std::uint16_t>(i);
  Stream cpu(Device::cpu(), 1);
  Stream cuda(Device::cuda());
  std::vector<float> expected(halves.size());
  conversion.decode(halves, expected, cpu);
  GuardedArray<std::uint16_t> on_device(halves, 0, cuda);
  GuardedArray<float> found(std::vector<float>(halves.size()), 0, cuda);
  conversion.decode(on_device.span(), found.span(), cuda);
  ASSERT_EQ(bits_of(found.values()), bits_of(expected));
}

/// All upper halves of a float32 with lower halves around rounding ties and at both ends, and random values.
inline void expect_same_rounding(const Conversion& conversion) {
  std::mt19937 random(7);
  for (const std::uint32_t lower : {0u, 1u, 0x0fffu, 0x1000u, 0x1001u, 0x3000u, 0x7fffu, 0x8000u, 0x8001u, 0xffffu}) {
    std::vector<float> values;
    for (std::uint32_t upper = 0; upper < 65536; ++upper) values.push_back(std::bit_cast<float>(upper << 16 | lower));
    for (int i = 0; i < 1001; ++i) values.push_back(std::bit_cast<float>(static_cast<std::uint32_t>(random())));
    expect_same_conversion(conversion, values, 0, 0);
    if (::testing::Test::HasFailure()) return;
  }
}

}  // namespace terngrad::testing
