#include "compress/exchange/overflow.h"

#include <gtest/gtest.h>

#include <cmath>
#include <limits>
#include <vector>

#include "kernels/runtime/errors.h"

namespace terngrad::overflow_test {
namespace {

constexpr float kMax = std::numeric_limits<float>::max();

TEST(MaxMean, IsTheLastWhoseProductIsFinite) {
  for (const float factor : {1.5f, 2.0f, 3.0f, 7.0f, 64.0f, 1000.0f, 16383.0f}) {
    const float max = max_mean(factor);
    EXPECT_TRUE(std::isfinite(max * factor)) << factor;
    EXPECT_FALSE(std::isfinite(std::nextafter(max, kMax) * factor)) << factor;
  }
  EXPECT_EQ(max_mean(2.0f), kMax / 2);
}

TEST(MaxMean, IsTheMaxNumberForFactorsThatMakeNothingGreater) {
  for (const float factor : {1.0f, 0.5f, 1e-30f}) EXPECT_EQ(max_mean(factor), kMax);
}

TEST(MaxMean, OtherFactorsAreRefused) {
  for (const float factor : {0.0f, -1.0f, std::numeric_limits<float>::infinity(), std::nanf("")}) {
    EXPECT_THROW(max_mean(factor), InvalidArgument);
  }
}

TEST(AreWithin, LooksAtEveryValue) {
  Stream stream(Device::cpu(), 2);
  for (const float max : {8.0f, kMax}) {
    std::vector<float> values(200'001, 1.0f);
    EXPECT_TRUE(are_within(values, max, stream));
    for (const std::size_t place : {std::size_t{0}, std::size_t{70'000}, values.size() - 1}) {
      for (const float value : {max, -max, -0.0f}) {
        values[place] = value;
        EXPECT_TRUE(are_within(values, max, stream));
      }
      for (const float value : {std::nextafter(max, std::numeric_limits<float>::infinity()), std::nanf(""),
                                -std::numeric_limits<float>::infinity()}) {
        values[place] = value;
        EXPECT_FALSE(are_within(values, max, stream)) << place;
      }
      values[place] = 1.0f;
    }
  }
  EXPECT_TRUE(are_within({}, 1.0f, stream));
}

}  // namespace
}  // namespace terngrad::overflow_test
