#include "kernels/statistics/scaler.h"

#include <gtest/gtest.h>

#include <cmath>
#include <limits>

#include "kernels/codes/ternarize.h"
#include "support/bits.h"
#include "support/gradients.h"
#include "support/reference.h"

namespace terngrad::scaler_test {
namespace {

using testing::bits_of;

Statistics of(std::vector<float> values) {
  Stream stream(Device::cpu(), 1);
  return measure(values, stream);
}

float scaler_of(const std::vector<float>& values, double c, ScalerRule rule) {
  return local_scaler(of(values), static_cast<std::int64_t>(values.size()), c, rule);
}

TEST(LocalScaler, IsTheMaximumWithoutClipping) {
  EXPECT_EQ(scaler_of({1, -3, 2}, 0, ScalerRule::kPaper), 3.0f);
  EXPECT_EQ(scaler_of({1, -3, 2}, 0, ScalerRule::kOriginal), 3.0f);
}

TEST(LocalScaler, ClipsAtPopulationDeviations) {
  // Mean 0, variance (4 * 1 + 2 * 16) / 6 = 6.
  const std::vector<float> values = {1, -1, 1, -1, 4, -4};
  EXPECT_EQ(scaler_of(values, 1.5, ScalerRule::kPaper), static_cast<float>(1.5 * std::sqrt(6.0)));
  EXPECT_EQ(scaler_of(values, 1.5, ScalerRule::kOriginal), static_cast<float>(1.5 * std::sqrt(6.0)));
}

TEST(LocalScaler, OfThePaperIsNeverAboveTheMaximum) {
  EXPECT_EQ(scaler_of({1, -1}, 2.5, ScalerRule::kPaper), 1.0f);
  EXPECT_EQ(scaler_of({1, -1}, 2.5, ScalerRule::kOriginal), 2.5f);
}

TEST(LocalScaler, OfEqualElementsIsTheirMagnitudeOrZeroInTheOriginal) {
  for (const float value : {3.0f, -0.1f, 1e-20f, 0.3333333f}) {
    const std::vector<float> equal(1000, value);
    EXPECT_EQ(scaler_of(equal, 2.5, ScalerRule::kPaper), std::fabs(value));
    EXPECT_EQ(scaler_of(equal, 2.5, ScalerRule::kOriginal), 0.0f);
  }
}

TEST(LocalScaler, OfOneElementIsItsMagnitude) { EXPECT_EQ(scaler_of({-7}, 2.5, ScalerRule::kPaper), 7.0f); }

TEST(LocalScaler, OfNothingAndOfZerosIsZero) {
  for (const ScalerRule rule : {ScalerRule::kPaper, ScalerRule::kOriginal}) {
    EXPECT_EQ(bits_of(local_scaler({}, 0, 2.5, rule)), 0u);
    EXPECT_EQ(bits_of(scaler_of({0, -0.0f, 0}, 2.5, rule)), 0u);
  }
}

TEST(LocalScaler, NonFiniteGivesTheCanonicalNan) {
  const float infinity = std::numeric_limits<float>::infinity();
  for (const float bad : {infinity, -infinity, -std::numeric_limits<float>::quiet_NaN()}) {
    EXPECT_EQ(bits_of(scaler_of({1, bad}, 0, ScalerRule::kPaper)), 0x7fc00000u);
    EXPECT_EQ(bits_of(scaler_of({1, bad}, 2.5, ScalerRule::kOriginal)), 0x7fc00000u);
  }
  EXPECT_EQ(bits_of(canonical_nan()), 0x7fc00000u);
}

TEST(LocalScaler, BelowTheMinIsZero) {
  EXPECT_EQ(scaler_of({0x1p-86f}, 0, ScalerRule::kPaper), 0x1p-86f);
  EXPECT_EQ(scaler_of({std::nextafter(0x1p-86f, 0.0f)}, 0, ScalerRule::kPaper), 0.0f);
  EXPECT_EQ(scaler_of({1e-45f}, 0, ScalerRule::kPaper), 0.0f);
}

TEST(LocalScaler, AboveTheMaxIsNan) {
  EXPECT_EQ(scaler_of({0x1p126f}, 0, ScalerRule::kPaper), 0x1p126f);
  EXPECT_EQ(bits_of(scaler_of({std::nextafter(0x1p126f, INFINITY)}, 0, ScalerRule::kPaper)), 0x7fc00000u);
  EXPECT_EQ(bits_of(scaler_of({0x1p125f, -0x1p125f}, 8, ScalerRule::kOriginal)), 0x7fc00000u);
}

TEST(LocalScaler, AgreesWithTheReferenceOnManyInputs) {
  for (std::uint64_t seed = 0; seed < 200; ++seed) {
    const std::vector<float> values =
        testing::gaussian(1 + seed * 37 % 6000, seed, std::exp2(-20.0 + 0.2 * static_cast<double>(seed)));
    const auto n = static_cast<std::int64_t>(values.size());
    for (const double c : {0.0, 0.5, 1.0, 2.5, 1e6}) {
      for (const bool original : {false, true}) {
        const float found = local_scaler(of(values), n, c, original ? ScalerRule::kOriginal : ScalerRule::kPaper);
        ASSERT_EQ(bits_of(found), bits_of(reference::scaler(reference::statistics(values), n, c, original))) << seed;
      }
    }
  }
}

float sign_scaler_of(const std::vector<float>& values, ScalerRule rule) {
  Stream stream(Device::cpu(), 1);
  return local_scaler(measure(values, stream, summed_as(rule)), static_cast<std::int64_t>(values.size()), 0, rule);
}

constexpr ScalerRule kMeansOfSigns[] = {ScalerRule::kMeanMagnitude, ScalerRule::kRootMeanSquare,
                                        ScalerRule::kSquaresOverMagnitudes};

TEST(LocalScalerOfSigns, IsTheMeanItIsNamedAfter) {
  const std::vector<float> values = {1, -2, 0, 5};
  EXPECT_EQ(sign_scaler_of(values, ScalerRule::kMeanMagnitude), 2.0f);
  EXPECT_EQ(sign_scaler_of(values, ScalerRule::kRootMeanSquare), static_cast<float>(std::sqrt(7.5)));
  EXPECT_EQ(sign_scaler_of(values, ScalerRule::kSquaresOverMagnitudes), 3.75f);
  EXPECT_EQ(sign_scaler_of(values, ScalerRule::kOne), 1.0f);
}

TEST(LocalScalerOfSigns, IsZeroWhereTheLargestMagnitudeIsTooSmallAndNowhereElse) {
  for (const ScalerRule rule : kMeansOfSigns) {
    EXPECT_EQ(bits_of(sign_scaler_of({0, -0.0f}, rule)), 0u);
    EXPECT_EQ(bits_of(sign_scaler_of({std::nextafter(0x1p-86f, 0.0f)}, rule)), 0u);
    EXPECT_EQ(sign_scaler_of({-0x1p-86f}, rule), 0x1p-86f);
    EXPECT_EQ(bits_of(local_scaler({}, 0, 0, rule)), 0u);
  }
  // The mean may be below 2^-86; only the largest magnitude must reach it.
  std::vector<float> sparse(1024);
  sparse[77] = -0x1p-86f;
  EXPECT_EQ(sign_scaler_of(sparse, ScalerRule::kMeanMagnitude), 0x1p-96f);
  EXPECT_EQ(sign_scaler_of(sparse, ScalerRule::kRootMeanSquare), 0x1p-91f);
  EXPECT_EQ(sign_scaler_of({0, 0}, ScalerRule::kOne), 1.0f);
}

TEST(LocalScalerOfSigns, IsNanWhereElementsAreNotFiniteOrItIsTooLarge) {
  for (const ScalerRule rule : kMeansOfSigns) {
    EXPECT_EQ(bits_of(sign_scaler_of({1, INFINITY}, rule)), 0x7fc00000u);
    EXPECT_EQ(sign_scaler_of({0x1p126f, -0x1p126f}, rule), 0x1p126f);
    EXPECT_EQ(bits_of(sign_scaler_of({-0x1.000002p126f}, rule)), 0x7fc00000u);
  }
  EXPECT_EQ(bits_of(sign_scaler_of({1, -INFINITY}, ScalerRule::kOne)), 0x7fc00000u);
  EXPECT_EQ(sign_scaler_of({0x1p127f}, ScalerRule::kOne), 1.0f);
}

TEST(StandardDeviation, IsZeroBelowRoundingErrorOfTheMean) {
  // The variance is 2^-42 of the mean square, below the limit of 2^-40.
  EXPECT_EQ(standard_deviation(of({1.0f, 1.0f + 0x1p-20f}), 2), 0.0);
  EXPECT_GT(standard_deviation(of({1.0f, 1.0f + 0x1p-18f}), 2), 0.0);
}

}  // namespace
}  // namespace terngrad::scaler_test
