#include "kernels/tensor/float16.h"

#include <gtest/gtest.h>

#include <cmath>
#include <limits>
#include <string>
#include <vector>

#include "kernels/runtime/errors.h"
#include "support/bits.h"
#include "support/gradients.h"
#include "support/reference.h"
#include "support/simd_targets.h"

namespace terngrad::float16_test {
namespace {

using testing::bits_of;

constexpr std::uint32_t kMax = 0x7bff;  // 65504
constexpr std::uint32_t kInfinity = 0x7c00;

static_assert(to_float16(1.0f) == 0x3c00 && to_float16(-2.0f) == 0xc000 && to_float16(65504.0f) == kMax);
static_assert(from_float16(0x3555) == 0x1.554p-2f && from_float16(0x0001) == 0x1p-24f);

TEST(Float16, DecodesEveryValue) {
  for (std::uint32_t half = 0; half < 65536; ++half) {
    const auto value = static_cast<std::uint16_t>(half);
    ASSERT_EQ(bits_of(from_float16(value)), bits_of(reference::from_float16(value))) << std::hex << half;
  }
}

TEST(Float16, RoundTripsEveryValueButSignallingNan) {
  for (std::uint32_t half = 0; half < 65536; ++half) {
    const float value = from_float16(static_cast<std::uint16_t>(half));
    ASSERT_EQ(to_float16(value), std::isnan(value) ? half | 0x0200u : half);
  }
}

TEST(Float16, RoundsToNearestEvenAroundEveryBoundary) {
  for (std::uint32_t half = 0; half < kInfinity; ++half) {
    // Midpoints are exact in float32: they have 12 bits. The largest float16 is followed by 2^16.
    const float low = from_float16(static_cast<std::uint16_t>(half));
    const float high = half == kMax ? 65536.0f : from_float16(static_cast<std::uint16_t>(half + 1));
    const float middle = (low + high) / 2;
    const std::uint32_t even = half + half % 2;
    for (const std::uint32_t sign : {0u, 0x8000u}) {
      const float one = sign == 0 ? 1.0f : -1.0f;
      ASSERT_EQ(to_float16(one * low), sign | half);
      ASSERT_EQ(to_float16(one * std::nextafter(low, high)), sign | half);
      ASSERT_EQ(to_float16(one * std::nextafter(middle, low)), sign | half);
      ASSERT_EQ(to_float16(one * middle), sign | even) << std::hex << half;
      ASSERT_EQ(to_float16(one * std::nextafter(middle, high)), sign | (half + 1));
      ASSERT_EQ(to_float16(one * std::nextafter(high, low)), sign | (half + 1));
    }
  }
}

TEST(Float16, RoundsEveryUpperHalfOfAFloat32) {
  for (std::uint32_t upper = 0; upper < 65536; ++upper) {
    for (const std::uint32_t lower : {0u, 1u, 0x0fffu, 0x1000u, 0x1001u, 0x3000u, 0x8000u, 0xffffu}) {
      const float value = std::bit_cast<float>(upper << 16 | lower);
      ASSERT_EQ(to_float16(value), reference::float16(value)) << std::hex << upper << " " << lower;
    }
  }
}

TEST(Float16, OverflowsToInfinityAboveHalfAStep) {
  EXPECT_EQ(to_float16(65519.996f), kMax);
  EXPECT_EQ(to_float16(65520.0f), kInfinity);  // the tie goes to even
  EXPECT_EQ(to_float16(std::numeric_limits<float>::max()), kInfinity);
  EXPECT_EQ(to_float16(-std::numeric_limits<float>::infinity()), 0x8000 | kInfinity);
}

TEST(Float16, UnderflowsToZeroUpToHalfTheMinSubnormal) {
  EXPECT_EQ(to_float16(0x1p-25f), 0);
  EXPECT_EQ(to_float16(std::nextafter(0x1p-25f, 1.0f)), 1);
  EXPECT_EQ(to_float16(-std::numeric_limits<float>::denorm_min()), 0x8000);
  EXPECT_EQ(to_float16(0x1.ffcp-15f), 0x0400);  // tie between the largest subnormal and the smallest normal number
  EXPECT_EQ(to_float16(std::nextafter(0x1.ffcp-15f, 0.0f)), 0x03ff);
}

TEST(Float16, KeepsNanItsSignAndTheUpperPayload) {
  EXPECT_EQ(to_float16(std::bit_cast<float>(0x7f800001u)), 0x7e00);
  EXPECT_EQ(to_float16(std::bit_cast<float>(0xffffffffu)), 0xffff);
  EXPECT_EQ(to_float16(std::bit_cast<float>(0x7fc02000u)), 0x7e01);
  EXPECT_EQ(bits_of(from_float16(0x7c01)), 0x7fc02000u);
  EXPECT_EQ(bits_of(from_float16(0xfe00)), 0xffc00000u);
}

TEST(Float16, BulkConversionsAgreeWithTheScalarOnes) {
  testing::for_each_target([](const std::string&) {
    for (const std::size_t n : {0u, 1u, 7u, 16u, 33u, 50001u}) {
      for (const double deviation : {1.0, 1e-6, 1e5}) {
        const std::vector<float> values = testing::gaussian(n, n, deviation);
        for (const int threads : {1, 3}) {
          Stream stream(Device::cpu(), threads);
          std::vector<std::uint16_t> halves(n);
          encode_float16(values, halves, stream);
          std::vector<float> decoded(n);
          decode_float16(halves, decoded, stream);
          std::vector<float> rounded = values;
          round_to_float16(rounded, stream);
          for (std::size_t i = 0; i < n; ++i) {
            ASSERT_EQ(halves[i], to_float16(values[i]));
            ASSERT_EQ(bits_of(decoded[i]), bits_of(from_float16(halves[i])));
            ASSERT_EQ(bits_of(rounded[i]), bits_of(decoded[i]));
          }
        }
      }
    }
  });
}

TEST(Float16, BulkConversionsAreTheScalarOnesForEveryPattern) {
  testing::for_each_target([](const std::string& target) {
    Stream stream(Device::cpu(), 1);
    std::vector<std::uint16_t> halves(65536);
    for (std::size_t i = 0; i < halves.size(); ++i) halves[i] = static_cast<std::uint16_t>(i);
    std::vector<float> floats(halves.size());
    decode_float16(halves, floats, stream);
    for (std::size_t i = 0; i < halves.size(); ++i) {
      ASSERT_EQ(bits_of(floats[i]), bits_of(from_float16(halves[i]))) << target << ' ' << i;
    }
    // Around ties and at both ends, for each upper half of a float32.
    for (const std::uint32_t lower : {0u, 1u, 0x0fffu, 0x1000u, 0x1001u, 0x3000u, 0x8000u, 0xffffu}) {
      for (std::uint32_t i = 0; i < 65536; ++i) floats[i] = std::bit_cast<float>(i << 16 | lower);
      encode_float16(floats, halves, stream);
      std::vector<float> rounded = floats;
      round_to_float16(rounded, stream);
      for (std::size_t i = 0; i < halves.size(); ++i) {
        ASSERT_EQ(halves[i], to_float16(floats[i])) << target << ' ' << i << ' ' << lower;
        ASSERT_EQ(bits_of(rounded[i]), bits_of(from_float16(halves[i]))) << target << ' ' << i << ' ' << lower;
      }
    }
  });
}

TEST(Float16, RefusesLengthsThatDiffer) {
  std::vector<float> floats(3);
  std::vector<std::uint16_t> halves(2);
  Stream stream(Device::cpu(), 1);
  EXPECT_THROW(encode_float16(floats, halves, stream), InvalidArgument);
  EXPECT_THROW(decode_float16(halves, floats, stream), InvalidArgument);
}

}  // namespace
}  // namespace terngrad::float16_test
