#include "nets/cuda/divisor.h"

#include <gtest/gtest.h>

#include <limits>
#include <vector>

namespace terngrad::cuda::divisor_test {
namespace {

static_assert(Divisor(7).quotient(48) == 6 && Divisor(7).remainder(48) == 6);

/// Numbers around multiples of the divisor, up to the largest int.
std::vector<int> dividends(int divisor) {
  constexpr int kMax = std::numeric_limits<int>::max();
  std::vector<int> result = {0, 1, kMax - 1, kMax};
  for (const int multiple : {1, 2, 3, 1000, kMax / divisor / 2, kMax / divisor}) {
    const std::int64_t product = std::int64_t{multiple} * divisor;
    for (const std::int64_t n : {product - 1, product, product + 1}) {
      if (n >= 0 && n <= kMax) result.push_back(static_cast<int>(n));
    }
  }
  return result;
}

TEST(Divisor, DividesAsTheLanguageDoes) {
  std::vector<int> divisors = {std::numeric_limits<int>::max(), std::numeric_limits<int>::max() - 1, 641, 6700417};
  for (int d = 1; d <= 300; ++d) divisors.push_back(d);
  for (int power = 256; power > 0 && power < (1 << 30); power *= 2) {
    divisors.insert(divisors.end(), {power - 1, power, power + 1});
  }
  for (const int d : divisors) {
    const Divisor divisor(d);
    EXPECT_EQ(divisor.divisor(), d);
    for (const int n : dividends(d)) {
      ASSERT_EQ(divisor.quotient(n), n / d) << n << " / " << d;
      ASSERT_EQ(divisor.remainder(n), n % d) << n << " % " << d;
    }
  }
}

}  // namespace
}  // namespace terngrad::cuda::divisor_test
