#include "nets/initializer.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <cstddef>
#include <stdexcept>
#include <vector>

namespace terngrad::initializer_test {
namespace {

double normal_cdf(double x) { return 0.5 * std::erfc(-x / std::sqrt(2.0)); }

std::vector<float> draw(std::size_t count, std::uint64_t seed, int tensor_index, float stddev = 1.0f) {
  std::vector<float> values(count);
  fill_tensor(Initializer::truncated_normal(stddev), seed, tensor_index, values);
  return values;
}

TEST(TruncatedNormalQuantile, InvertsTheDistributionFunction) {
  const double mass = normal_cdf(2) - normal_cdf(-2);
  for (int i = 1; i < 65536; ++i) {
    const double probability = i / 65536.0;
    const double x = truncated_normal_quantile(probability);
    ASSERT_NEAR((normal_cdf(x) - normal_cdf(-2)) / mass, probability, 4e-15) << probability;
    ASSERT_EQ(truncated_normal_quantile(1 - probability), -x) << "not symmetric at " << probability;
  }
}

TEST(TruncatedNormalQuantile, StaysWithinTwoAtTheLastDraw) {
  const double min = truncated_normal_quantile(0.5 * 0x1p-32);
  EXPECT_GE(min, -2.0);
  EXPECT_LT(min, -1.99999);
  EXPECT_EQ(truncated_normal_quantile(1 - 0.5 * 0x1p-32), -min);
}

TEST(FillTensor, TruncatedNormalHasItsMomentsAndBounds) {
  constexpr std::size_t kCount = 1 << 20;
  constexpr float kStddev = 0.05f;
  const auto values = draw(kCount, 1, 0, kStddev);
  double sum = 0;
  double squares = 0;
  double largest = 0;
  for (const float value : values) {
    sum += value;
    squares += double{value} * value;
    largest = std::max(largest, std::abs(double{value}));
  }
  // Variance of a normal truncated at 2: 1 - 4 phi(2) / (2 Phi(2) - 1) = 0.8796^2. Tolerance: five standard errors.
  const double density = std::exp(-2.0) / std::sqrt(2 * std::acos(-1.0));
  const double true_stddev = kStddev * std::sqrt(1 - 4 * density / (normal_cdf(2) - normal_cdf(-2)));
  EXPECT_NEAR(true_stddev / kStddev, 0.8796, 1e-4);
  EXPECT_NEAR(sum / kCount, 0, 5 * true_stddev / 1024);
  EXPECT_NEAR(std::sqrt(squares / kCount), true_stddev, 5 * true_stddev / 1024);
  EXPECT_LE(largest, 2 * double{kStddev});
  EXPECT_GE(largest, 1.99 * double{kStddev});
}

TEST(FillTensor, UniformHasItsMomentsAndBounds) {
  constexpr std::size_t kCount = 1 << 20;
  constexpr float kLimit = 0.25f;
  std::vector<float> values(kCount);
  fill_tensor(Initializer::uniform(kLimit), 1, 0, values);
  double sum = 0;
  double squares = 0;
  for (const float value : values) {
    sum += value;
    squares += double{value} * value;
    ASSERT_LE(std::abs(value), kLimit);
  }
  // Tolerance: five standard errors; the variance of squares is limit^4 (1/5 - 1/9).
  const double variance = double{kLimit} * kLimit / 3;
  EXPECT_NEAR(sum / kCount, 0, 5 * std::sqrt(variance) / 1024);
  EXPECT_NEAR(squares / kCount, variance, 5 * std::sqrt(1.0 / 5 - 1.0 / 9) * kLimit * kLimit / 1024);
  // Uses the same draws as a truncated normal with equal seed and tensor: both increase together.
  const std::vector<float> normal = draw(100, 1, 0);
  for (std::size_t i = 0; i < normal.size(); ++i) EXPECT_EQ(normal[i] > 0, values[i] > 0) << i;
}

TEST(FillTensor, RefusesWhatDependsOnFans) {
  std::vector<float> values(5);
  EXPECT_THROW(fill_tensor(Initializer::xavier_uniform(), 1, 0, values), std::logic_error);
  EXPECT_THROW(fill_tensor(Initializer::scaled_normal(2), 1, 0, values), std::logic_error);
  EXPECT_THROW(fill_tensor(Initializer::fan_in_uniform(), 1, 0, values), std::logic_error);
}

TEST(FillTensor, DependsOnSeedAndTensorOnly) {
  const auto values = draw(101, 1, 0);
  EXPECT_EQ(values, draw(101, 1, 0));
  EXPECT_NE(values, draw(101, 2, 0));
  EXPECT_NE(values, draw(101, 1, 1));
  EXPECT_NE(values, draw(101, 1ull << 32 | 1, 0)) << "the high word of the seed is ignored";
  const auto shorter = draw(7, 1, 0);
  EXPECT_TRUE(std::equal(shorter.begin(), shorter.end(), values.begin()));
}

TEST(FillTensor, ConstantsAndEmptyTensors) {
  std::vector<float> values(5, -1.0f);
  fill_tensor(Initializer::constant(0.25f), 1, 0, values);
  EXPECT_EQ(values, std::vector<float>(5, 0.25f));
  fill_tensor(Initializer::truncated_normal(1), 1, 0, {});
}

TEST(FillTensor, GoldenValues) {
  // From an independent program (Philox and another library's quantile function), rounded to float; bit-identical on
  // all machines.
  const std::vector<float> expected = {-0x1.85371p-3f, -0x1.637fcap-1f, 0x1.3bac3p-2f,   -0x1.599288p+0f,
                                       0x1.7cc18ep-4f, -0x1.ea82d8p-1f, -0x1.efa218p+0f, 0x1.0f5466p+0f};
  EXPECT_EQ(draw(expected.size(), 42, 3), expected);
}

}  // namespace
}  // namespace terngrad::initializer_test
