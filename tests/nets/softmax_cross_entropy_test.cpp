#include "nets/softmax_cross_entropy.h"

#include <gtest/gtest.h>

#include <cmath>
#include <limits>
#include <vector>

#include "kernels/runtime/errors.h"

namespace terngrad::softmax_cross_entropy_test {
namespace {

TEST(SoftmaxCrossEntropy, UniformLogitsGiveTheLogarithmOfTheNumberOfClasses) {
  const std::vector<float> logits(20, 3.5f);
  const std::vector<std::int32_t> labels = {0, 7};
  std::vector<float> gradient(20, NAN);
  const WorkerLoss loss = softmax_cross_entropy(logits, labels, 10, gradient);
  EXPECT_DOUBLE_EQ(loss.entropy_loss, std::log(10.0));
  EXPECT_EQ(loss.num_correct, 1);  // the first of equal logits counts
  for (std::size_t i = 0; i < 20; ++i) EXPECT_FLOAT_EQ(gradient[i], i == 0 || i == 17 ? -0.45f : 0.05f) << i;
}

TEST(SoftmaxCrossEntropy, TwoClassesGiveTheLogisticLoss) {
  const std::vector<float> logits = {1.25f, -0.5f};
  std::vector<float> gradient(2);
  const std::vector<std::int32_t> labels = {1};
  const WorkerLoss loss = softmax_cross_entropy(logits, labels, 2, gradient);
  EXPECT_NEAR(loss.entropy_loss, std::log1p(std::exp(1.75)), 1e-14);
  const double probability = 1 / (1 + std::exp(-1.75));
  EXPECT_NEAR(gradient[0], probability, 1e-7);
  EXPECT_NEAR(gradient[1], -probability, 1e-7);
  EXPECT_EQ(loss.num_correct, 0);
}

TEST(SoftmaxCrossEntropy, SmoothedLabelsGiveEveryClassAShare) {
  const std::vector<float> logits = {1.5f, -0.25f, 0.75f, 2, 0, -1};
  const std::vector<std::int32_t> labels = {2, 0};
  constexpr double kSmoothing = 0.25;
  std::vector<float> gradient(6);
  const WorkerLoss loss = softmax_cross_entropy(logits, labels, 3, gradient, {.label_smoothing = 0.25f});
  double expected = 0;
  for (std::size_t n = 0; n < 2; ++n) {
    double sum = 0;
    for (std::size_t j = 0; j < 3; ++j) sum += std::exp(double{logits[3 * n + j]});
    for (std::size_t j = 0; j < 3; ++j) {
      const double target = kSmoothing / 3 + (static_cast<std::int32_t>(j) == labels[n] ? 1 - kSmoothing : 0);
      const double probability = std::exp(double{logits[3 * n + j]}) / sum;
      expected -= target * std::log(probability) / 2;
      EXPECT_NEAR(gradient[3 * n + j], (probability - target) / 2, 1e-7) << n << ", " << j;
    }
  }
  EXPECT_NEAR(loss.entropy_loss, expected, 1e-14);
  EXPECT_EQ(loss.num_correct, 1);
  // Smoothing does not change the loss if all logits are equal.
  const std::vector<float> equal(6, 2.5f);
  EXPECT_DOUBLE_EQ(softmax_cross_entropy(equal, labels, 3, {}, {.label_smoothing = 0.25f}).entropy_loss, std::log(3.0));
}

TEST(SoftmaxCrossEntropy, OfAnAuxiliaryTermOnlyTheWeightedLossCounts) {
  const std::vector<float> logits = {1.5f, -0.25f, 0.75f, 2, 0, -1};
  const std::vector<std::int32_t> labels = {2, 0};
  std::vector<float> plain(6);
  std::vector<float> weighted(6);
  const WorkerLoss main = softmax_cross_entropy(logits, labels, 3, plain);
  const WorkerLoss loss = softmax_cross_entropy(logits, labels, 3, weighted, {.weight = 0.5f, .is_auxiliary = true});
  EXPECT_EQ(main.auxiliary_loss, 0);
  EXPECT_EQ(loss.entropy_loss, 0);
  EXPECT_EQ(loss.num_correct, 0);
  EXPECT_DOUBLE_EQ(loss.auxiliary_loss, main.entropy_loss / 2);
  for (std::size_t i = 0; i < 6; ++i) EXPECT_EQ(weighted[i], plain[i] / 2) << i;
}

TEST(SoftmaxCrossEntropy, HugeLogitsDoNotOverflow) {
  const std::vector<float> logits = {3e38f, -3e38f, 1e38f};
  std::vector<float> gradient(3);
  const std::vector<std::int32_t> right = {0};
  EXPECT_EQ(softmax_cross_entropy(logits, right, 3, gradient).entropy_loss, 0.0);
  EXPECT_EQ(gradient, (std::vector<float>{0, 0, 0}));
  const std::vector<std::int32_t> wrong = {1};
  EXPECT_NEAR(softmax_cross_entropy(logits, wrong, 3, gradient).entropy_loss, 6e38, 1e32);
  EXPECT_EQ(gradient, (std::vector<float>{1, -1, 0}));
}

TEST(SoftmaxCrossEntropy, NanIsNotHidden) {
  const std::vector<float> logits = {1, std::numeric_limits<float>::quiet_NaN()};
  std::vector<float> gradient(2);
  for (const std::int32_t label : {0, 1}) {
    const WorkerLoss loss = softmax_cross_entropy(logits, {&label, 1}, 2, gradient);
    EXPECT_TRUE(std::isnan(loss.entropy_loss)) << label;
    EXPECT_TRUE(std::isnan(gradient[1])) << label;
  }
}

TEST(SoftmaxCrossEntropy, GradientIsOptional) {
  const std::vector<float> logits = {0, 0};
  const std::vector<std::int32_t> labels = {0};
  EXPECT_NEAR(softmax_cross_entropy(logits, labels, 2, {}).entropy_loss, std::log(2.0), 1e-15);
}

TEST(SoftmaxCrossEntropy, RefusesLabelsAndSizesThatCannotBe) {
  const std::vector<float> logits(6, 0.0f);
  std::vector<float> gradient(6);
  const auto loss_of = [&](std::vector<std::int32_t> labels, int classes) {
    return softmax_cross_entropy(logits, labels, classes, gradient);
  };
  EXPECT_THROW(loss_of({0, 3}, 3), InvalidArgument);
  EXPECT_THROW(loss_of({0, -1}, 3), InvalidArgument);
  EXPECT_THROW(loss_of({0}, 3), InvalidArgument);
  EXPECT_THROW(loss_of({}, 3), InvalidArgument);
  EXPECT_THROW(loss_of({0, 0}, 0), InvalidArgument);
  gradient.pop_back();
  EXPECT_THROW(loss_of({0, 1}, 3), InvalidArgument);
}

}  // namespace
}  // namespace terngrad::softmax_cross_entropy_test
