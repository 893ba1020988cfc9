#include "trainers/io/histogram_json.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <limits>
#include <nlohmann/json.hpp>
#include <numeric>
#include <string>
#include <vector>

#include "tests/support/gradients.h"

namespace terngrad::histogram_json_test {
namespace {

using ::testing::ElementsAre;
using Json = nlohmann::ordered_json;

TEST(HistogramJson, FieldsAreTheDocumentedOnes) {
  const Json json = histogram_json(
      make_histogram(std::vector<float>{0.0f, -0.5f, 1.0f, 1.0f, std::numeric_limits<float>::infinity()}));
  std::vector<std::string> keys;
  for (const auto& item : json.items()) keys.push_back(item.key());
  EXPECT_THAT(keys, ElementsAre("min", "max", "num", "nonfinite", "sum", "sum_squares", "limits", "counts"));
  EXPECT_EQ(json["min"], -0.5);
  EXPECT_EQ(json["max"], 1.0);
  EXPECT_EQ(json["num"], 4);
  EXPECT_EQ(json["nonfinite"], 1);
  EXPECT_EQ(json["sum"], 1.5);
  EXPECT_EQ(json["sum_squares"], 2.25);
  EXPECT_EQ(json["counts"], (Json{1, 0, 1, 0, 2}));
  EXPECT_EQ(json["limits"][1], 0.0);
  EXPECT_EQ(json["limits"][2], 1e-12);
}

TEST(HistogramJson, LimitsAreThoseOfTheHistogramToFiveDigits) {
  const Histogram histogram = make_histogram(testing::gaussian(10000, 1, 0.003));
  const auto limits = histogram_json(histogram)["limits"].get<std::vector<double>>();
  // More than sixty buckets of each sign, the two around zero, and the zeros.
  EXPECT_GT(limits.size(), 130u);
  EXPECT_TRUE(std::ranges::is_sorted(limits));
  for (const double limit : limits) {
    const auto near =
        std::ranges::min_element(histogram_limits(), {}, [&](double exact) { return std::fabs(exact - limit); });
    EXPECT_NEAR(limit, *near, 5.01e-5 * std::fabs(*near));
    EXPECT_LE(Json(limit).dump().size(), 12u) << limit;
  }
}

TEST(HistogramJson, CountsAreWhole) {
  const Histogram histogram = make_histogram(testing::gaussian(100000, 2));
  const auto counts = histogram_json(histogram)["counts"].get<std::vector<std::int64_t>>();
  EXPECT_EQ(std::accumulate(counts.begin(), counts.end(), std::int64_t{0}), histogram.num);
}

TEST(HistogramJson, StaysBelowFourKilobytes) {
  // Magnitudes over all decades of float32, in all buckets, for a tensor of 10^11 elements.
  std::vector<float> values;
  for (double magnitude = 1e-40; magnitude < 3e38; magnitude *= 1.05) {
    values.push_back(static_cast<float>(magnitude));
    values.push_back(static_cast<float>(-magnitude));
  }
  Histogram histogram = make_histogram(values);
  EXPECT_GT(histogram.counts.size(), 1000u);
  for (std::int64_t& count : histogram.counts) count = 123'456'789;
  EXPECT_LT(histogram_json(histogram).dump().size(), 3900u);
}

TEST(HistogramJson, TernaryGradientsHaveThreeBuckets) {
  const Json json = histogram_json(make_histogram(std::vector<float>{0.0f, 0.25f, -0.25f, 0.0f, 0.25f}));
  EXPECT_EQ(json["counts"], (Json{1, 0, 2, 0, 2}));
}

TEST(HistogramJson, NothingGivesNoBuckets) {
  const Json json = histogram_json(make_histogram(std::vector<float>{std::nanf("")}));
  EXPECT_EQ(json["num"], 0);
  EXPECT_EQ(json["nonfinite"], 1);
  EXPECT_TRUE(json["limits"].is_array() && json["limits"].empty());
  EXPECT_TRUE(json["counts"].is_array() && json["counts"].empty());
}

}  // namespace
}  // namespace terngrad::histogram_json_test
