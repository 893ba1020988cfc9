#include "kernels/tensor/bfloat16.h"

#include <gtest/gtest.h>

#include <cmath>
#include <limits>
#include <vector>

#include "kernels/runtime/errors.h"
#include "support/bits.h"
#include "support/gradients.h"
#include "support/reference.h"

namespace terngrad::bfloat16_test {
namespace {

using testing::bits_of;

/// Lower halves around ties, and at both ends.
constexpr std::uint32_t kLowerHalves[] = {0, 1, 0x7fff, 0x8000, 0x8001, 0xffff, 0x4000, 0xc000};

TEST(Bfloat16, RoundsToNearestEvenForEveryUpperHalf) {
  for (std::uint32_t upper = 0; upper < 65536; ++upper) {
    for (const std::uint32_t lower : kLowerHalves) {
      const float value = std::bit_cast<float>(upper << 16 | lower);
      ASSERT_EQ(to_bfloat16(value), reference::bfloat16(value)) << std::hex << upper << " " << lower;
    }
  }
}

TEST(Bfloat16, RoundTripsEveryValueButNan) {
  for (std::uint32_t half = 0; half < 65536; ++half) {
    const float value = from_bfloat16(static_cast<std::uint16_t>(half));
    ASSERT_EQ(bits_of(value), half << 16);
    if (std::isnan(value)) continue;
    ASSERT_EQ(to_bfloat16(value), half);
  }
}

TEST(Bfloat16, KeepsNanAndItsSign) {
  for (const std::uint32_t bits : {0x7f800001u, 0x7fffffffu, 0xff800001u, 0xffffffffu, 0x7fc00000u}) {
    const std::uint16_t half = to_bfloat16(std::bit_cast<float>(bits));
    EXPECT_TRUE(std::isnan(from_bfloat16(half))) << std::hex << bits;
    EXPECT_EQ(half >> 15, bits >> 31);
    EXPECT_NE(half & 0x40, 0);  // quiet
  }
}

TEST(Bfloat16, OverflowsToInfinityAboveHalfAStep) {
  EXPECT_EQ(to_bfloat16(std::numeric_limits<float>::max()), 0x7f80);
  EXPECT_EQ(to_bfloat16(std::bit_cast<float>(0x7f7f7fffu)), 0x7f7f);
  EXPECT_EQ(to_bfloat16(std::bit_cast<float>(0x7f7f8000u)), 0x7f80);  // the tie goes to even
  EXPECT_EQ(to_bfloat16(-std::numeric_limits<float>::infinity()), 0xff80);
}

TEST(Bfloat16, BulkConversionsAgreeWithTheScalarOnes) {
  for (const std::size_t n : {0u, 1u, 7u, 16u, 50001u}) {
    const std::vector<float> values = testing::gaussian(n, n);
    for (const int threads : {1, 3}) {
      Stream stream(Device::cpu(), threads);
      std::vector<std::uint16_t> halves(n);
      encode_bfloat16(values, halves, stream);
      std::vector<float> decoded(n);
      decode_bfloat16(halves, decoded, stream);
      std::vector<float> rounded = values;
      round_to_bfloat16(rounded, stream);
      for (std::size_t i = 0; i < n; ++i) {
        ASSERT_EQ(halves[i], reference::bfloat16(values[i]));
        ASSERT_EQ(bits_of(decoded[i]), bits_of(reference::from_bfloat16(halves[i])));
        ASSERT_EQ(bits_of(rounded[i]), bits_of(decoded[i]));
      }
    }
  }
}

TEST(Bfloat16, RefusesLengthsThatDiffer) {
  std::vector<float> floats(3);
  std::vector<std::uint16_t> halves(2);
  Stream stream(Device::cpu(), 1);
  EXPECT_THROW(encode_bfloat16(floats, halves, stream), InvalidArgument);
  EXPECT_THROW(decode_bfloat16(halves, floats, stream), InvalidArgument);
}

}  // namespace
}  // namespace terngrad::bfloat16_test
