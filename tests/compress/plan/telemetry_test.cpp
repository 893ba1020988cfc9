#include "compress/plan/telemetry.h"

#include <gtest/gtest.h>

#include <cmath>
#include <limits>
#include <numbers>
#include <vector>

#include "kernels/runtime/errors.h"

namespace terngrad::telemetry_test {
namespace {

TEST(Telemetry, NormsAreThoseOfTheGradient) {
  const std::vector<float> g = {3, -4, 0, 12};
  const TensorTelemetry t = compare_with_sent(g, std::vector<float>{0, 0, 0, 0}, 0);
  EXPECT_DOUBLE_EQ(t.norm, 13);
  EXPECT_DOUBLE_EQ(t.max_abs, 12);
}

TEST(Telemetry, FractionsCountElements) {
  const std::vector<float> g = {3, -4, 0, 12, 2, -2, 1, 1};
  const std::vector<float> sent = {2, -2, 0, 2, 2, -2, 0, 0};
  const TensorTelemetry t = compare_with_sent(g, sent, 2);
  EXPECT_EQ(t.scaler, 2);
  EXPECT_DOUBLE_EQ(t.zero_fraction, 3.0 / 8);
  EXPECT_DOUBLE_EQ(t.clip_fraction, 3.0 / 8);  // 3, -4 and 12; an element equal to the scaler is not clipped
}

TEST(Telemetry, KeptNormIsWhatClippingLeaves) {
  const std::vector<float> g = {3, -4};
  // Clipped at 1: (1, -1), of a vector of length 5.
  EXPECT_DOUBLE_EQ(compare_with_sent(g, g, 1).kept_norm, std::sqrt(2.0) / 5);
  EXPECT_DOUBLE_EQ(compare_with_sent(g, g, 3).kept_norm, std::sqrt(18.0) / 5);
  EXPECT_DOUBLE_EQ(compare_with_sent(g, g, 4).kept_norm, 1);
}

double angle_of(const std::vector<float>& g, double scaler) {
  return compare_with_sent(g, g, scaler).clip_angle_degrees;
}

TEST(Telemetry, ClipAngleIsBetweenTheGradientAndItClipped) {
  const auto degrees = [](double cosine) { return std::acos(cosine) * 180 / std::numbers::pi; };
  // (3, -4) and (1, -1); (3, -4) and (3, -3).
  EXPECT_NEAR(angle_of({3, -4}, 1), degrees(7 / (5 * std::sqrt(2.0))), 1e-12);
  EXPECT_NEAR(angle_of({3, -4}, 3), degrees(21 / (5 * std::sqrt(18.0))), 1e-12);
  EXPECT_EQ(angle_of({3, -4}, 4), 0);
  // (8, 1, 0, 0) and (1, 1, 0, 0): an element that is clipped and one that is not.
  EXPECT_NEAR(angle_of({8, 1, 0, 0}, 1), degrees(9 / std::sqrt(2.0 * 65)), 1e-12);
}

TEST(Telemetry, ClipAngleIsExactWhereItIsSmall) {
  // (1, 1 + d) and (1, 1): tan(angle) = d / (2 + d). An arc cosine would have at most 8 correct digits.
  for (const double d : {0x1p-11, 0x1p-16, 0x1p-22}) {  // 0.014 degrees to 7e-6
    const double expected = std::atan(d / (2 + d)) * 180 / std::numbers::pi;
    EXPECT_NEAR(angle_of({1, static_cast<float>(1 + d)}, 1) / expected, 1, 1e-13) << d;
    EXPECT_NEAR(angle_of({-1, static_cast<float>(1 + d)}, 1) / expected, 1, 1e-13) << d;
  }
}

TEST(Telemetry, ClippingAllElementsAlikeTurnsNothing) {
  EXPECT_EQ(angle_of(std::vector<float>(1000, -2.5f), 1), 0);
  // Here the difference of large sums cancels; a thousand roundings contribute.
  EXPECT_NEAR(angle_of(std::vector<float>(1000, 0.7f), 0.1), 0, 1e-4);
}

TEST(Telemetry, ClipAngleOfWhatIsNotFiniteIsNone) {
  EXPECT_TRUE(std::isnan(angle_of({1, std::numeric_limits<float>::infinity()}, 1)));
  EXPECT_TRUE(std::isnan(angle_of({1, std::numeric_limits<float>::quiet_NaN()}, 1)));
}

TEST(Telemetry, WithoutAScalerNothingIsClipped) {
  const std::vector<float> g = {3, -4};
  const TensorTelemetry t = compare_with_sent(g, g, 0);
  EXPECT_EQ(t.clip_fraction, 0);
  EXPECT_EQ(t.kept_norm, 1);
  EXPECT_EQ(t.clip_angle_degrees, 0);
}

TEST(Telemetry, SignalToNoiseIsInDecibels) {
  // |g|^2 = 100, |g - sent|^2 = 1 and 25.
  EXPECT_DOUBLE_EQ(compare_with_sent(std::vector<float>{10, 0}, std::vector<float>{10, 1}, 0).snr_db, 20);
  EXPECT_NEAR(compare_with_sent(std::vector<float>{6, 8}, std::vector<float>{6, 3}, 0).snr_db, 10 * std::log10(4.0),
              1e-12);
  EXPECT_DOUBLE_EQ(compare_with_sent(std::vector<float>{6, 8}, std::vector<float>{3, 4}, 0).error_norm, 5);
  EXPECT_DOUBLE_EQ(norm_of(std::vector<float>{6, 8}), 10);
  // All lost: 0 dB.
  EXPECT_DOUBLE_EQ(compare_with_sent(std::vector<float>{6, 8}, std::vector<float>{0, 0}, 0).snr_db, 0);
  const double lossless = compare_with_sent(std::vector<float>{6, 8}, std::vector<float>{6, 8}, 0).snr_db;
  EXPECT_TRUE(std::isinf(lossless) && lossless > 0);
}

TEST(Telemetry, TernaryOfAKnownDistribution) {
  // g uniform on a grid of (0, 1], with s = 1 and codes as often non-zero as their probability: E|g - sent|^2 is the
  // variance of a Bernoulli draw, the mean of g (1 - g) = 1/6, and the mean square is 1/3: 10 log10 2 dB. Half are
  // zeros.
  constexpr int kLevels = 1000;
  std::vector<float> g;
  std::vector<float> sent;
  for (int level = 1; level <= kLevels; ++level) {
    for (int draw = 0; draw < kLevels; ++draw) {
      g.push_back(static_cast<float>(level) / kLevels);
      sent.push_back(draw < level ? 1.0f : 0.0f);
    }
  }
  const TensorTelemetry t = compare_with_sent(g, sent, 1);
  EXPECT_NEAR(t.zero_fraction, 0.5, 1e-3);
  EXPECT_NEAR(t.snr_db, 10 * std::log10(2.0), 0.01);
  EXPECT_EQ(t.clip_fraction, 0);
}

TEST(Telemetry, EmptyAndAllZeroTensorsHaveNothingToLose) {
  for (const std::size_t n : {std::size_t{0}, std::size_t{5}}) {
    const std::vector<float> zeros(n, 0.0f);
    const TensorTelemetry t = compare_with_sent(zeros, zeros, 0);
    EXPECT_EQ(t.norm, 0);
    EXPECT_EQ(t.max_abs, 0);
    EXPECT_EQ(t.kept_norm, 1);
    EXPECT_EQ(t.clip_angle_degrees, 0);
    EXPECT_EQ(t.clip_fraction, 0);
    EXPECT_EQ(t.zero_fraction, n == 0 ? 0 : 1);
    EXPECT_FALSE(std::isfinite(t.snr_db));
  }
}

TEST(Telemetry, HugeAndTinyValuesDoNotOverflow) {
  const std::vector<float> g = {3e38f, -3e38f, 1e-45f};
  const TensorTelemetry t = compare_with_sent(g, std::vector<float>{3e38f, -3e38f, 0}, 3e38);
  EXPECT_NEAR(t.norm / (std::sqrt(2.0) * 3e38), 1, 1e-6);
  EXPECT_GT(t.snr_db, 1000);
  // (2, 1) and (1, 1), for any unit.
  const double expected = std::atan(1.0 / 3) * 180 / std::numbers::pi;
  for (const float unit : {1.5e38f, 0x1p-148f}) EXPECT_NEAR(angle_of({2 * unit, unit}, unit), expected, 1e-10) << unit;
}

TEST(Telemetry, LengthsThatDifferAreRefused) {
  EXPECT_THROW(compare_with_sent(std::vector<float>(3), std::vector<float>(4), 0), InvalidArgument);
}

}  // namespace
}  // namespace terngrad::telemetry_test
