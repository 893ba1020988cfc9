#include "kernels/tensor/transform.h"

#include <gtest/gtest.h>

#include <bit>
#include <cmath>
#include <cstdint>
#include <limits>
#include <string>
#include <vector>

#include "support/bits.h"
#include "support/elementwise_runs.h"
#include "support/gradients.h"
#include "support/sanitized.h"
#include "support/simd_targets.h"

namespace terngrad::transform_test {
namespace {

using testing::bits_of;

/// Runs body(values, stream) for many lengths, alignments, threads and targets.
template <class Body>
void for_each_case(const Body& body) {
  testing::for_each_elementwise_run([&](std::size_t n, std::size_t start, Stream& stream) {
    std::vector<float> values = testing::gaussian(n + start, 1);
    body(std::span(values).subspan(start), stream);
  });
}

/// Infinities, NaN, and the values around them and around zero.
constexpr std::uint32_t kSpecial[] = {0x7f800000u, 0xff800000u, 0x7fc00000u, 0xffc00000u, 0x7f800001u, 0xffffffffu,
                                      0x7f7fffffu, 0xff7fffffu, 0x00000000u, 0x80000000u, 0x00000001u, 0x807fffffu};

TEST(ZeroNonfinite, ReplacesNanAndInfinityAndNothingElse) {
  for_each_case([](std::span<float> values, Stream& stream) {
    for (std::size_t i = 0; i < values.size(); i += 2) values[i] = std::bit_cast<float>(kSpecial[i / 2 % 12]);
    std::vector<std::uint32_t> want = bits_of(values);
    std::int64_t num_nonfinite = 0;
    for (std::uint32_t& bits : want) {
      if ((bits & 0x7f800000u) != 0x7f800000u) continue;
      bits = 0;
      ++num_nonfinite;
    }
    ASSERT_EQ(all_finite(values, stream), num_nonfinite == 0);
    ASSERT_EQ(zero_nonfinite(values, stream), num_nonfinite);
    ASSERT_EQ(bits_of(values), want);
    ASSERT_EQ(zero_nonfinite(values, stream), 0);
    ASSERT_TRUE(all_finite(values, stream));
  });
}

TEST(ZeroNonfinite, FindsOneAtAnyPlace) {
  testing::for_each_target([](const std::string&) {
    Stream stream(Device::cpu(), 1);
    for (std::size_t place = 0; place < 70; ++place) {
      std::vector<float> values(70, 2.5f);
      values[place] = std::numeric_limits<float>::quiet_NaN();
      ASSERT_FALSE(all_finite(values, stream)) << place;
      ASSERT_EQ(zero_nonfinite(values, stream), 1) << place;
      for (std::size_t i = 0; i < values.size(); ++i) ASSERT_EQ(values[i], i == place ? 0.0f : 2.5f) << place;
    }
  });
}

TEST(ZeroNonfinite, GathersTheAnswersOfSeveralCallsInMemory) {
  Stream stream(Device::cpu(), 1);
  std::vector<float> finite(100, 1.0f);
  std::vector<float> hostile(100, std::numeric_limits<float>::infinity());
  hostile[7] = 2.0f;
  std::uint32_t found = 0;
  find_nonfinite(finite, &found, stream);
  EXPECT_EQ(found, 0u);
  find_nonfinite(hostile, &found, stream);
  EXPECT_EQ(found, 1u);
  find_nonfinite(finite, &found, stream);
  EXPECT_EQ(found, 1u);
  std::int64_t num_replaced = 5;
  zero_nonfinite(hostile, &num_replaced, stream);
  zero_nonfinite(finite, &num_replaced, stream);
  EXPECT_EQ(num_replaced, 5 + 99);
  EXPECT_TRUE(all_finite(hostile, stream));
}

TEST(Scale, RoundsOnce) {
  for (const float factor : testing::few({0.1f, 3e-39f, 1.0f, 0.0f})) {
    for_each_case([factor](std::span<float> values, Stream& stream) {
      std::vector<std::uint32_t> want;
      for (const float value : values) {
        const float product = factor * value;
        want.push_back(bits_of(product));
      }
      std::vector<float> again(values.begin(), values.end());
      scale(values, factor, stream);
      ASSERT_EQ(bits_of(values), want);
      scale(again, &factor, stream);
      ASSERT_EQ(bits_of(again), want);
    });
  }
}

}  // namespace
}  // namespace terngrad::transform_test
