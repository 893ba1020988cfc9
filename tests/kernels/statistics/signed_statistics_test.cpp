#include "kernels/statistics/signed_statistics.h"

#include <gtest/gtest.h>

#include <cmath>
#include <limits>
#include <string>

#include "kernels/runtime/errors.h"
#include "kernels/tensor/bfloat16.h"
#include "support/bits.h"
#include "support/gradients.h"
#include "support/signed_sums.h"
#include "support/simd_targets.h"

namespace terngrad::signed_statistics_test {
namespace {

using testing::bits_of;
using testing::SidesOfRuns;

void expect_equal(const SignedStatistics& found, const SignedStatistics& expected, const std::string& what) {
  ASSERT_EQ(bits_of(found.sum_positive), bits_of(expected.sum_positive)) << what;
  ASSERT_EQ(bits_of(found.sum_negative), bits_of(expected.sum_negative)) << what;
  ASSERT_EQ(found.num_negative, expected.num_negative) << what;
  ASSERT_EQ(found.max_positive, expected.max_positive) << what;
  ASSERT_EQ(found.max_negative, expected.max_negative) << what;
}

/// Statistics of the values as one tensor.
std::vector<SignedStatistics> measured(std::vector<float> values, std::int64_t columns = 0) {
  Layout layout;
  const auto n = static_cast<std::int64_t>(values.size());
  layout.add("w", {n});
  SignedStatisticsPlan plan({{{0, 0, n}, columns}});
  std::vector<SignedStatistics> result(static_cast<std::size_t>(plan.num_groups()));
  Stream stream(Device::cpu(), 1);
  std::vector<float*> tensors = {values.data()};
  plan.run(TensorTable(layout, tensors), result, stream);
  return result;
}

std::vector<float> scalers_of(std::vector<float> values, std::int64_t columns = 0) {
  Layout layout;
  const auto n = static_cast<std::int64_t>(values.size());
  layout.add("w", {n});
  SignedStatisticsPlan plan({{{0, 0, n}, columns}});
  std::vector<float> result(static_cast<std::size_t>(2 * plan.num_groups()));
  Stream stream(Device::cpu(), 1);
  std::vector<float*> tensors = {values.data()};
  const TensorTable table(layout, tensors);
  plan.side_means({&table, 1}, result, stream);
  return result;
}

TEST(SignedStatistics, FollowTheTreeOfStatisticsAtRaggedLengths) {
  for (const std::size_t n : {1u, 2u, 15u, 16u, 17u, 511u, 513u, 4095u, 4096u, 4097u, 8200u}) {
    const std::vector<float> values = testing::gaussian(n, n);
    const SignedStatistics expected = testing::reference_sides(values);
    testing::for_each_target([&](const std::string& target) {
      expect_equal(measured(values)[0], expected, target + ", length " + std::to_string(n));
    });
  }
}

TEST(SignedStatistics, AddColumnsInBlocksOfRows) {
  for (const std::int64_t columns : {1, 2, 7, 8, 9, 16, 33}) {
    for (const std::int64_t rows : {1, 63, 64, 65, 130, 16500}) {
      const std::vector<float> values = testing::gaussian(static_cast<std::size_t>(rows * columns), 3);
      const auto expected = testing::reference_columns(values, static_cast<std::size_t>(columns));
      testing::for_each_target([&](const std::string& target) {
        const std::vector<SignedStatistics> found = measured(values, columns);
        ASSERT_EQ(found.size(), expected.size());
        for (std::size_t c = 0; c < found.size(); ++c) {
          expect_equal(found[c], expected[c], target + ", " + std::to_string(rows) + " rows");
        }
      });
    }
  }
}

TEST(SignedStatistics, MeasureManyRunsWithAnyNumberOfThreads) {
  const SidesOfRuns sides(5);
  std::vector<float> flat = sides.flat;
  const TensorTable table(sides.layout, flat.data());
  SignedStatisticsPlan plan(sides.runs);
  ASSERT_EQ(plan.num_groups(), static_cast<std::int64_t>(sides.expected.size()));
  for (const int threads : {1, 2, 3, 4}) {
    Stream stream(Device::cpu(), threads);
    std::vector<SignedStatistics> found(sides.expected.size());
    plan.run(table, found, stream);
    for (std::size_t i = 0; i < found.size(); ++i) expect_equal(found[i], sides.expected[i], std::to_string(i));
  }
}

TEST(SignedStatistics, WidenElementsOfSixteenBits) {
  Layout layout;
  layout.add("matrix", {100, 30});
  layout.add("w", {5000});
  const std::vector<float> exact = testing::gaussian(static_cast<std::size_t>(layout.flat_elements()), 8);
  std::vector<std::uint16_t> narrow;
  std::vector<float> wide;
  for (const float value : exact) {
    narrow.push_back(to_bfloat16(value));
    wide.push_back(from_bfloat16(narrow.back()));
  }
  SignedStatisticsPlan plan({{{0, 0, 3000}, 30}, {{1, 0, 5000}, 0}});
  Stream stream(Device::cpu(), 2);
  std::vector<SignedStatistics> of_narrow(31);
  std::vector<SignedStatistics> of_wide(31);
  plan.run(TensorTable(layout, ElementType::kBfloat16, narrow.data()), of_narrow, stream);
  plan.run(TensorTable(layout, wide.data()), of_wide, stream);
  EXPECT_EQ(of_narrow, of_wide);
}

TEST(SignedStatistics, PutMinusZeroOnTheNegativeSideAndFlagWhatIsNotFinite) {
  const SignedStatistics zeros = measured({0.0f, -0.0f, -0.0f})[0];
  EXPECT_EQ(zeros, (SignedStatistics{0, 0, 2, 0, 0}));
  const float nan = std::numeric_limits<float>::quiet_NaN();
  testing::for_each_target([&](const std::string& target) {
    for (const float bad : {nan, -nan, INFINITY, -INFINITY}) {
      for (const std::size_t at : {std::size_t{0}, std::size_t{17}, std::size_t{4999}}) {
        std::vector<float> values(5000, 1.0f);
        values[at] = bad;
        EXPECT_TRUE(measured(values)[0].is_nonfinite()) << target;
        const std::vector<SignedStatistics> columns = measured(values, 10);
        for (std::size_t c = 0; c < 10; ++c) EXPECT_EQ(columns[c].is_nonfinite(), c == at % 10) << target;
      }
    }
  });
}

TEST(SideScalers, AreTheMeansOfTheSides) {
  EXPECT_EQ(scalers_of({1, -2, 3, -6, 0}), (std::vector{4.0f, 4.0f / 3}));
  EXPECT_EQ(scalers_of({1, 2}), (std::vector{0.0f, 1.5f}));
  EXPECT_EQ(scalers_of({-1, -0.0f}), (std::vector{0.5f, 0.0f}));
  EXPECT_EQ(scalers_of({1, -2, 3, -4, -5, 6}, 2), (std::vector{5.0f, 2.0f, 3.0f, 6.0f}));
}

TEST(SideScalers, LeaveTheLeastErrorOfAllPairs) {
  // |C(g) - g|^2 = S2 - n+ a+^2 - n- a-^2.
  const std::vector<float> g = testing::gaussian(3000, 12);
  const std::vector<float> a = scalers_of(g);
  const auto error = [&](double negative, double positive) {
    double sum = 0;
    for (const float value : g) {
      const double e = static_cast<double>(value) - (std::signbit(value) ? -negative : positive);
      sum += e * e;
    }
    return sum;
  };
  const double least = error(a[0], a[1]);
  double squares = 0;
  for (const float value : g) squares += static_cast<double>(value) * static_cast<double>(value);
  const auto num_negative = static_cast<double>(testing::num_negative_of(g));
  const auto n = static_cast<double>(g.size());
  const double expected = squares - num_negative * a[0] * a[0] - (n - num_negative) * a[1] * a[1];
  EXPECT_NEAR(least / expected, 1, 1e-6);
  for (const double factor : {0.99, 1.01}) {
    EXPECT_GT(error(a[0] * factor, a[1]), least);
    EXPECT_GT(error(a[0], a[1] * factor), least);
  }
}

TEST(SideScalers, HaveTheLimitsOfSigns) {
  EXPECT_EQ(scalers_of({0x1p-86f, -std::nextafter(0x1p-86f, 0.0f)}), (std::vector{0.0f, 0x1p-86f}));
  EXPECT_EQ(scalers_of({0x1p-86f, 0.0f, -1.0f}), (std::vector{1.0f, 0x1p-87f}));
  for (const float bad : {INFINITY, -std::numeric_limits<float>::quiet_NaN(), 0x1p127f}) {
    for (const float scaler : scalers_of({bad, -1.0f})) EXPECT_EQ(bits_of(scaler), 0x7fc00000u);
  }
}

TEST(SignedStatisticsPlan, RefusesWhatItCannotHonour) {
  EXPECT_THROW(SignedStatisticsPlan({{{0, 0, 10}, 3}}), InvalidArgument);
  EXPECT_THROW(SignedStatisticsPlan({{{0, 4, 12}, 4}}), InvalidArgument);
  Layout layout;
  layout.add("w", {10});
  std::vector<float> flat(16);
  const TensorTable table(layout, flat.data());
  SignedStatisticsPlan plan({{{0, 0, 10}, 5}});
  Stream stream(Device::cpu(), 1);
  std::vector<SignedStatistics> four(4);
  EXPECT_THROW(plan.run(table, four, stream), InvalidArgument);
  std::vector<float> nine(9);
  EXPECT_THROW(plan.side_means({&table, 1}, nine, stream), InvalidArgument);
}

}  // namespace
}  // namespace terngrad::signed_statistics_test
