#include "trainers/io/histogram.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <limits>
#include <numeric>
#include <vector>

#include "tests/support/bits.h"
#include "tests/support/gradients.h"

namespace terngrad::histogram_test {
namespace {

using ::testing::ElementsAre;

TEST(HistogramLimits, GrowByATenthOnBothSidesOfZero) {
  const std::span<const double> limits = histogram_limits();
  ASSERT_EQ(limits.size(), 1551u);
  EXPECT_TRUE(std::ranges::is_sorted(limits));
  EXPECT_EQ(limits.front(), -std::numeric_limits<double>::max());
  EXPECT_EQ(limits.back(), std::numeric_limits<double>::max());
  EXPECT_EQ(limits[775], 0.0);
  EXPECT_EQ(limits[776], 1e-12);
  EXPECT_EQ(limits[777], 1e-12 * 1.1);
  EXPECT_EQ(limits[778], 1e-12 * 1.1 * 1.1);
  for (std::size_t i = 0; i < limits.size(); ++i) EXPECT_EQ(limits[i], -limits[limits.size() - 1 - i]);
  EXPECT_LT(limits[1549], 1e20);
  EXPECT_GE(limits[1549] * 1.1, 1e20);
  // One limit, bit for bit: 1e-12 times 1.1, 300 times.
  double limit = 1e-12;
  for (int i = 0; i < 300; ++i) limit *= 1.1;
  EXPECT_EQ(testing::bits_of(limits[1076]), testing::bits_of(limit));
}

TEST(Histogram, ABucketHoldsItsLowerLimitAndNotItsUpper) {
  // No limit is a power of two; zero is a limit.
  const Histogram histogram = make_histogram(std::vector<float>{0.0f, -0.0f, 1e-13f, -1e-13f, 2e-12f});
  EXPECT_THAT(histogram.counts, ElementsAre(1, 3, 0, 1));
  EXPECT_EQ(histogram.limits[0], 0.0);
  EXPECT_EQ(histogram.limits[1], 1e-12);
  EXPECT_LE(histogram.limits[2], 2e-12);
  EXPECT_GT(histogram.limits[3], 2e-12);
}

TEST(Histogram, EveryValueIsInTheBucketThatEnclosesIt) {
  std::vector<float> values;
  for (int exponent = -45; exponent <= 38; ++exponent) {
    const auto magnitude = static_cast<float>(std::pow(10.0, exponent));
    for (const float value : {magnitude, -magnitude, 3 * magnitude}) {
      if (std::isfinite(value)) values.push_back(value);
    }
  }
  for (const float value : values) {
    const Histogram histogram = make_histogram(std::vector<float>{value});
    ASSERT_THAT(histogram.counts, ElementsAre(1)) << value;
    const auto limit = std::ranges::find(histogram_limits(), histogram.limits[0]);
    ASSERT_NE(limit, histogram_limits().end());
    EXPECT_LT(static_cast<double>(value), *limit);
    EXPECT_GE(static_cast<double>(value), *(limit - 1));
    EXPECT_EQ(histogram.min, static_cast<double>(value));
    EXPECT_EQ(histogram.max, static_cast<double>(value));
  }
  for (const double limit : histogram_limits()) {  // and the floats next to each limit
    const auto at = static_cast<float>(limit);
    for (const float value : {std::nextafterf(at, -1e38f), at, std::nextafterf(at, 1e38f)}) {
      if (!std::isfinite(value)) continue;
      const Histogram histogram = make_histogram(std::vector<float>{value});
      EXPECT_EQ(histogram.limits.at(0), *std::ranges::upper_bound(histogram_limits(), static_cast<double>(value)));
      values.push_back(value);
    }
  }
  const Histogram all = make_histogram(values);
  EXPECT_EQ(all.num, static_cast<std::int64_t>(values.size()));
  EXPECT_EQ(std::accumulate(all.counts.begin(), all.counts.end(), std::int64_t{0}), all.num);
}

TEST(Histogram, RunsOfEmptyBucketsAreOne) {
  const Histogram histogram = make_histogram(std::vector<float>{-1.0f, 0.0f, 0.0f, 1.0f, 1.0f, 1.0f});
  EXPECT_THAT(histogram.counts, ElementsAre(1, 0, 2, 0, 3));
  EXPECT_TRUE(std::ranges::is_sorted(histogram.limits));
  EXPECT_EQ(histogram.limits[1], 0.0);
  EXPECT_EQ(histogram.limits[2], 1e-12);
  EXPECT_EQ(histogram.num, 6);
  EXPECT_EQ(histogram.sum, 2.0);
  EXPECT_EQ(histogram.sum_squares, 4.0);
}

TEST(Histogram, SumsAreInDoublePrecision) {
  const std::vector<float> values(1000, 16777217.0f / 3);
  const Histogram histogram = make_histogram(values);
  EXPECT_EQ(histogram.sum, 1000.0 * static_cast<double>(values[0]));
  EXPECT_THAT(histogram.counts, ElementsAre(1000));
}

TEST(Histogram, NothingGivesNoBuckets) {
  for (const std::vector<float>& values : {std::vector<float>{}, std::vector<float>{std::nanf("")}}) {
    const Histogram histogram = make_histogram(values);
    EXPECT_EQ(histogram.num, 0);
    EXPECT_EQ(histogram.min, 0.0);
    EXPECT_EQ(histogram.max, 0.0);
    EXPECT_TRUE(histogram.limits.empty());
    EXPECT_TRUE(histogram.counts.empty());
  }
}

TEST(Histogram, NonfiniteValuesAreCountedApart) {
  constexpr float kInfinity = std::numeric_limits<float>::infinity();
  const Histogram histogram = make_histogram(std::vector<float>{std::nanf(""), 2.0f, kInfinity, -kInfinity});
  EXPECT_EQ(histogram.num_nonfinite, 3);
  EXPECT_EQ(histogram.num, 1);
  EXPECT_EQ(histogram.sum, 2.0);
  EXPECT_THAT(histogram.counts, ElementsAre(1));
}

TEST(HistogramMerge, KeepsLargeBucketsAndZeros) {
  std::vector<float> values = {0.0f, 0.0f, 0.0f};
  for (const float magnitude : {1.0f, 0.9f, 0.5f, 1e-3f, 1e-4f, 1e-9f}) {
    values.push_back(magnitude);
    values.push_back(-magnitude);
  }
  const Histogram all = make_histogram(values);
  const Histogram merged = merge_small_buckets(all, 1e-2);
  // -1, -0.9, a gap, -0.5, a gap, three small ones, three zeros, three small ones, and so on.
  EXPECT_THAT(merged.counts, ElementsAre(1, 1, 0, 1, 0, 3, 3, 3, 0, 1, 0, 1, 1));
  EXPECT_TRUE(std::ranges::is_sorted(merged.limits));
  for (const double limit : merged.limits) {
    EXPECT_TRUE(std::ranges::binary_search(histogram_limits(), limit)) << limit;
    EXPECT_TRUE(limit == 0 || limit == 1e-12 || std::fabs(limit) >= 1e-2) << limit;
  }
  EXPECT_EQ(merged.limits[5], 0.0);
  EXPECT_EQ(merged.limits[6], 1e-12);
  EXPECT_EQ(merged.num, all.num);
  EXPECT_EQ(merged.min, all.min);
  EXPECT_EQ(merged.max, all.max);
  EXPECT_EQ(merged.sum_squares, all.sum_squares);
}

TEST(HistogramMerge, NothingSmallIsNothingMerged) {
  const Histogram histogram = make_histogram(testing::gaussian(1000, 3));
  EXPECT_EQ(merge_small_buckets(histogram, 0).limits, histogram.limits);
  EXPECT_EQ(merge_small_buckets(histogram, 0).counts, histogram.counts);
  EXPECT_TRUE(merge_small_buckets(make_histogram({}), 1).counts.empty());
}

TEST(HistogramMerge, LimitsInAGapDoNotWidenTheBucketBelow) {
  // Nothing lies between -1 and -1e-3: the bucket of -1 keeps its width.
  const Histogram merged = merge_small_buckets(make_histogram(std::vector<float>{-1.0f, -1e-3f, 1.0f}), 1e-2);
  EXPECT_THAT(merged.counts, ElementsAre(1, 0, 1, 0, 1));
  EXPECT_LT(merged.limits[0], -0.9);
  EXPECT_NEAR(merged.limits[1], -1e-2, 1e-3);
  EXPECT_EQ(merged.limits[2], 0.0);
}

}  // namespace
}  // namespace terngrad::histogram_test
