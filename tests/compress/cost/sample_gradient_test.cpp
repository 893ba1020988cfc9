#include "compress/cost/sample_gradient.h"

#include <gtest/gtest.h>

#include <cmath>
#include <vector>

namespace terngrad::sample_gradient_test {
namespace {

std::vector<float> sample(std::size_t count, std::uint64_t seed, int num_threads) {
  std::vector<float> values(count, -1);
  fill_sample_gradient(values, seed, num_threads);
  return values;
}

TEST(SampleGradient, HasTheMomentsThatItSays) {
  constexpr std::size_t kCount = 200'001;
  double sum = 0;
  double squares = 0;
  for (const float value : sample(kCount, 1, 1)) {
    sum += static_cast<double>(value);
    squares += static_cast<double>(value) * static_cast<double>(value);
  }
  // Tolerance: six standard errors of the mean and of the mean square.
  EXPECT_NEAR(sum / kCount, 0, 6 * 0.01 / std::sqrt(kCount));
  EXPECT_NEAR(squares / kCount, 1e-4, 6 * 1e-4 * std::sqrt(2.0 / kCount));
}

TEST(SampleGradient, DependsOnTheSeedAlone) {
  EXPECT_EQ(sample(10'001, 1, 1), sample(10'001, 1, 3));
  EXPECT_NE(sample(10'001, 1, 1), sample(10'001, 2, 1));
  // A shorter sample is a prefix of a longer one.
  std::vector<float> longer = sample(10'001, 1, 1);
  longer.resize(999);
  EXPECT_EQ(longer, sample(999, 1, 1));
  EXPECT_TRUE(sample(0, 1, 1).empty());
}

}  // namespace
}  // namespace terngrad::sample_gradient_test
