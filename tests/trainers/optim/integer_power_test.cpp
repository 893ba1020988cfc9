#include "trainers/optim/integer_power.h"

#include <gtest/gtest.h>

#include <cstdint>
#include <limits>

namespace terngrad::integer_power_test {
namespace {

TEST(IntegerPower, IsTheProductOfTheFactors) {
  static_assert(integer_power(2.0, 0) == 1.0);
  static_assert(integer_power(0.0, 0) == 1.0);
  static_assert(integer_power(3.0, 5) == 243.0);
  EXPECT_EQ(integer_power(2.0, 100), 0x1p100);
  EXPECT_EQ(integer_power(-0.5, 3), -0.125);
  // 1.5 has so few digits that products up to the 30th are exact.
  double product = 1.0;
  for (std::uint64_t exponent = 0; exponent <= 30; ++exponent, product *= 1.5) {
    EXPECT_EQ(integer_power(1.5, exponent), product) << exponent;
  }
}

TEST(IntegerPower, OfHugeExponentsVanishesOrOverflows) {
  EXPECT_EQ(integer_power(0.999, UINT64_MAX), 0.0);
  EXPECT_EQ(integer_power(1.0, UINT64_MAX), 1.0);
  EXPECT_EQ(integer_power(2.0, 1024), std::numeric_limits<double>::infinity());
}

}  // namespace
}  // namespace terngrad::integer_power_test
