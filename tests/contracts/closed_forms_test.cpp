// Clipping statistics at 2.5 standard deviations for known gradient distributions (Wen et al., NIPS 2017, section 3.3)
// against the integrals below. Tolerances are six standard errors of the sample: false-alarm rate 2e-9 each.
#include <gtest/gtest.h>

#include <cmath>
#include <random>
#include <vector>

#include "compress/codecs/ternary_codec.h"
#include "compress/plan/codec_registry.h"
#include "compress/plan/telemetry.h"
#include "kernels/codes/ternarize.h"
#include "kernels/statistics/scaler.h"
#include "kernels/statistics/statistics.h"
#include "support/codec_messages.h"
#include "support/gradients.h"
#include "support/sanitized.h"

namespace terngrad::closed_forms_test {
namespace {

constexpr double kClip = 2.5;
constexpr double kPi = 3.14159265358979323846;
const std::size_t kElements = testing::scaled<std::size_t>(1 << 22, 1 << 18);

double density(double x) { return std::exp(-x * x / 2) / std::sqrt(2 * kPi); }
double upper_tail(double x) { return std::erfc(x / std::sqrt(2.0)) / 2; }

/// Moments of a unit Gaussian g and m = min(|g|, c), integrated by parts.
struct ClippedGaussian {
  double clipped = 2 * upper_tail(kClip);                                           // P(|g| > c)
  double mean = 2 * (density(0) - density(kClip)) + 2 * kClip * upper_tail(kClip);  // E[m]
  double inside = 1 - 2 * upper_tail(kClip) - 2 * kClip * density(kClip);           // E[g^2; |g| <= c]
  double square = inside + kClip * kClip * 2 * upper_tail(kClip);                   // E[m^2]
  double product = inside + 2 * kClip * density(kClip);                             // E[|g| m]
};

TensorTelemetry sample(const std::vector<float>& gradient) {
  Stream stream(Device::cpu(), 1);
  const float s =
      local_scaler(measure(gradient, stream), static_cast<std::int64_t>(gradient.size()), kClip, ScalerRule::kPaper);
  std::vector<std::uint32_t> words((gradient.size() + 15) / 16);
  TernarizeTask task;
  task.gradient = gradient.data();
  task.count = static_cast<std::int64_t>(gradient.size());
  task.scalers = &s;
  task.payload = reinterpret_cast<std::uint8_t*>(words.data());
  std::int64_t bytes = 0;
  ternarize({&task, 1}, {}, {1, 0, 0, DrawPurpose::kTernarize}, {&bytes, 1}, stream);
  std::vector<float> sent(gradient.size());
  for (std::size_t i = 0; i < gradient.size(); ++i) {
    if ((words[i / 16] >> (2 * (i % 16)) & 1) != 0) sent[i] = std::copysign(s, gradient[i]);
  }
  return compare_with_sent(gradient, sent, static_cast<double>(s));
}

TEST(ClosedForms, OfTheGaussianAreThePublishedNumbers) {
  const ClippedGaussian form;
  EXPECT_NEAR(std::sqrt(form.square) - 1, -0.0113, 5e-5);
  EXPECT_NEAR(std::acos(form.product / std::sqrt(form.square)) * 180 / kPi, 2.75, 5e-3);
  EXPECT_NEAR(form.clipped, 0.0124, 5e-5);
  EXPECT_NEAR(1 - form.mean / kClip, 0.682, 5e-4);
}

TEST(ClosedForms, GaussianGradientsShowThem) {
  const ClippedGaussian form;
  const TensorTelemetry found = sample(testing::gaussian(kElements, 5, 0.37));
  const auto n = static_cast<double>(kElements);
  // A sample fraction p of n has variance p (1 - p) / n. The error of the scaler shifts p by density * c * (relative
  // error of sigma, 1 / sqrt(2 n)), which is less; both together are below twice the first deviation.
  const double clipped_error = 2 * std::sqrt(form.clipped * (1 - form.clipped) / n);
  EXPECT_NEAR(found.clip_fraction, form.clipped, 6 * clipped_error);
  EXPECT_NEAR(found.zero_fraction, 1 - form.mean / kClip, 6 * 2 * 0.5 / std::sqrt(n));
  // Norm and angle are smooth functions of the means of g^2, m^2 and g m over n elements. These differ only in the few
  // clipped elements: the deviation is below E[(g^2 - m^2)^2]^(1/2) < 0.5, and half of that for the norm.
  EXPECT_NEAR(found.kept_norm, std::sqrt(form.square), 6 * 0.25 / std::sqrt(n));
  // d(angle) = d(cos) / sin(angle), with sin(2.75 degrees) = 0.048 and d(cos) below 0.05 / sqrt(n).
  const double angle = std::acos(form.product / std::sqrt(form.square)) * 180 / kPi;
  EXPECT_NEAR(found.clip_angle_degrees, angle, 6 * (0.05 / 0.048) / std::sqrt(n) * 180 / kPi);
}

TEST(ClosedForms, AsymmetricLevelsHaveTheErrorOfEachSide) {
  // g| is uniform in [0, 4] on the positive side and in [0, 1] on the negative one. The expected squared error of an
  // element is |g| (s - |g|): on average s^2 / 6 where |g| reaches s, and s / 2 - 1 / 3 where |g| reaches 1.
  Layout layout;
  layout.add("w", {static_cast<std::int64_t>(kElements)});
  testing::Tensors tensors = testing::blank_tensors(layout);
  std::mt19937_64 random(8);
  for (float& g : tensors.values[0]) {
    g = static_cast<float>(testing::uniform(random)) * (random() % 2 == 0 ? 4.0f : -1.0f);
  }
  const auto error_of = [&](const TernaryOptions& options) {
    const TernaryCodec codec(options);
    const testing::Sent sent = testing::send(codec, layout, tensors, 0, {{0, 0, static_cast<std::int64_t>(kElements)}});
    std::vector<float> decoded(kElements);
    codec.decode(sent.slices[0], decoded);
    double error = 0;
    for (std::size_t i = 0; i < kElements; ++i) {
      const double e = static_cast<double>(decoded[i]) - static_cast<double>(tensors.values[0][i]);
      error += e * e / static_cast<double>(kElements);
    }
    return error;
  };
  // A squared error has a deviation below 4, its mean per side 0.197 s^2; s is accurate to 1e-5.
  const double tolerance = 6 * 4 / std::sqrt(static_cast<double>(kElements));
  EXPECT_NEAR(error_of({.levels = TernaryLevels::kAsymmetric}), (16.0 / 6 + 1.0 / 6) / 2, tolerance);
  EXPECT_NEAR(error_of({}), (16.0 / 6 + 4.0 / 2 - 1.0 / 3) / 2, tolerance);
}

TEST(ClosedForms, ThcHasTheErrorOfAClippedGaussian) {
  // Clipping beyond c = 2.154 deviations loses 2 ((1 + c^2) Q(c) - c phi(c)) of the power. Elements below c are rounded
  // between levels c / 7 apart; their offset from the level below is almost uniform, which adds (c / 7)^2 / 6 each.
  constexpr double kReach = 2.154;
  const double clipping = 2 * ((1 + kReach * kReach) * upper_tail(kReach) - kReach * density(kReach));
  const double drawing = (1 - 2 * upper_tail(kReach)) * std::pow(kReach / 7, 2) / 6;
  EXPECT_NEAR(2 * upper_tail(kReach), 1 / 32.0, 5e-5);
  EXPECT_NEAR(clipping, 0.0073, 5e-5);
  EXPECT_NEAR(clipping + drawing, 0.0226, 5e-5);
  const auto codec = make_codec("thc", {});
  const auto error_of = [&](const std::vector<float>& gradient) {
    Layout layout;
    layout.add("w", {static_cast<std::int64_t>(gradient.size())});
    const testing::Tensors tensors(layout, {gradient});
    const testing::Sent sent =
        testing::send(*codec, layout, tensors, 0, {{0, 0, static_cast<std::int64_t>(gradient.size())}});
    std::vector<float> decoded(gradient.size());
    codec->decode(sent.slices[0], decoded);
    double error = 0;
    double power = 0;
    for (std::size_t i = 0; i < gradient.size(); ++i) {
      const auto g = static_cast<double>(gradient[i]);
      error += std::pow(static_cast<double>(decoded[i]) - g, 2);
      power += g * g;
    }
    return error / power;
  };
  // The deviation of a squared error is below 0.1 of an element's power. The scaler's relative error of 1 / sqrt(2 x
  // 512) per block, which is negligible: (dE / dc)^2 is near 0.
  const double tolerance = 6 * 0.1 / std::sqrt(static_cast<double>(kElements)) + 2e-4;
  EXPECT_NEAR(error_of(testing::gaussian(kElements, 9, 0.1)), clipping + drawing, tolerance);
  // Rotation sums 1024 elements, which is nearly Gaussian for a heavier tail, too.
  EXPECT_NEAR(error_of(testing::laplace(kElements, 10)), clipping + drawing, tolerance);
}

TEST(ClosedForms, LaplaceGradientsAreSparser) {
  // Unit variance: scale b = 1 / sqrt(2), E[min(|g|, c)] = b (1 - exp(-c / b)).
  const double b = std::sqrt(0.5);
  const double zeros = 1 - b * (1 - std::exp(-kClip / b)) / kClip;
  EXPECT_NEAR(zeros, 0.725, 5e-4);
  const TensorTelemetry found = sample(testing::laplace(kElements, 6));
  // Relative error of the scaler: sqrt((kurtosis - 1) / 4n) = 1.12 / sqrt(n), times 0.25 for the zeros. Error of the
  // draws: 0.45 / sqrt(n).
  EXPECT_NEAR(found.zero_fraction, zeros, 6 * (0.28 + 0.45) / std::sqrt(static_cast<double>(kElements)));
}

}  // namespace
}  // namespace terngrad::closed_forms_test
