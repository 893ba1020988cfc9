#include "nets/loss.h"

#include <gtest/gtest.h>

#include <cmath>
#include <cstddef>
#include <utility>
#include <vector>

#include "kernels/runtime/errors.h"
#include "nets/net.h"
#include "nets/softmax_cross_entropy.h"
#include "tests/nets/auxiliary_net.h"
#include "tests/nets/reference_net.h"

namespace terngrad::loss_test {
namespace {

constexpr int kClasses = 3;
const std::vector<float> kLogits = {1.5f, -0.25f, 0.75f, 2, 0, -1};
const std::vector<std::int32_t> kLabels = {2, 0};

double value_of(const Loss& loss, const std::vector<float>& logits, std::vector<float>* gradient = nullptr) {
  std::vector<float> ignored(logits.size());
  return loss(logits, kLabels, kClasses, gradient != nullptr ? *gradient : ignored);
}

double target(std::size_t i) { return kLabels[i / kClasses] == static_cast<std::int32_t>(i % kClasses) ? 1 : 0; }

TEST(Loss, GradientsAreThoseOfCentralDifferences) {
  for (const Loss& loss : {Loss(sigmoid_cross_entropy), Loss(mean_squared_error)}) {
    std::vector<float> gradient(kLogits.size());
    value_of(loss, kLogits, &gradient);
    for (std::size_t i = 0; i < kLogits.size(); ++i) {
      constexpr float kStep = 0x1p-10f;
      std::vector<float> above = kLogits;
      std::vector<float> below = kLogits;
      above[i] += kStep;
      below[i] -= kStep;
      EXPECT_NEAR(gradient[i], (value_of(loss, above) - value_of(loss, below)) / (2 * kStep), 1e-6) << i;
    }
  }
}

TEST(Loss, ValuesFollowTheirFormulas) {
  double entropy = 0;
  double error = 0;
  for (std::size_t i = 0; i < kLogits.size(); ++i) {
    const double p = 1 / (1 + std::exp(-double{kLogits[i]}));
    entropy -= std::log(target(i) == 1 ? p : 1 - p) / 6;
    error += std::pow(kLogits[i] - target(i), 2) / 6;
  }
  EXPECT_NEAR(value_of(sigmoid_cross_entropy, kLogits), entropy, 1e-14);
  EXPECT_NEAR(value_of(mean_squared_error, kLogits), error, 1e-14);
}

TEST(Loss, HugeLogitsDoNotOverflow) {
  const std::vector<float> huge = {3e38f, -3e38f, 0, -3e38f, 3e38f, 0};
  std::vector<float> gradient(6);
  EXPECT_NEAR(value_of(sigmoid_cross_entropy, huge, &gradient), 9e38 / 6, 1e32);
  for (std::size_t i = 0; i < huge.size(); ++i) {
    const double p = huge[i] > 0 ? 1 : huge[i] < 0 ? 0 : 0.5;
    EXPECT_NEAR(gradient[i], (p - target(i)) / 6, 1e-7) << i;
  }
}

/// Gradients and losses of the slices of two workers, and the logits.
struct Pass {
  std::vector<WorkerLoss> losses{2};
  std::vector<std::vector<float>> gradients;
  std::vector<float> logits;
};

Pass pass_of(const NetSpec& spec, Loss loss) {
  constexpr ImageShape kImage{7, 9, 3};
  constexpr int kExamples = 8;
  const auto net = make_net(spec, kImage, 5,
                            {.num_local_workers = 2, .examples_per_worker = kExamples / 2, .loss = std::move(loss)});
  EXPECT_TRUE(net->writes_logits());
  std::vector<float> parameters(static_cast<std::size_t>(net->layout().flat_elements()));
  net->initialize(1, parameters);
  Pass pass;
  std::vector<float*> gradients;
  std::vector<std::vector<float>> states(
      2, std::vector<float>(static_cast<std::size_t>(net->state_layout().flat_elements())));
  std::vector<float*> state_pointers;
  for (std::size_t w = 0; w < 2; ++w) {
    net->initialize_state(states[w]);
    state_pointers.push_back(states[w].data());
    gradients.push_back(pass.gradients.emplace_back(parameters.size()).data());
  }
  pass.logits.resize(kExamples * 5);
  const auto images = test::random_floats(static_cast<std::size_t>(kExamples * kImage.num_elements()), 2);
  const auto labels = test::cyclic_labels(kExamples, 5);
  net->compute_gradients(parameters,
                         {.images = images, .labels = labels, .states = state_pointers, .logits = pass.logits},
                         gradients, pass.losses);
  return pass;
}

TEST(Loss, TakesThePlaceOfSoftmaxCrossEntropyInAllClassifiers) {
  const NetSpec smoothed = test::net_of_three_losses(0.6f);
  NetSpec plain = smoothed;
  plain.label_smoothing = 0;
  const Pass expected = pass_of(smoothed, {});
  const Pass found = pass_of(plain, [&](auto logits, auto labels, int num_classes, auto gradient) {
    const LossTerm term{.label_smoothing = smoothed.label_smoothing};
    return softmax_cross_entropy(logits, labels, num_classes, gradient, term).entropy_loss;
  });
  EXPECT_EQ(found.logits, expected.logits);
  for (std::size_t w = 0; w < 2; ++w) {
    EXPECT_EQ(found.losses[w].entropy_loss, expected.losses[w].entropy_loss);
    EXPECT_DOUBLE_EQ(found.losses[w].auxiliary_loss, expected.losses[w].auxiliary_loss);
    EXPECT_EQ(found.losses[w].num_correct, expected.losses[w].num_correct);
    for (std::size_t i = 0; i < found.gradients[w].size(); ++i) {
      ASSERT_NEAR(found.gradients[w][i], expected.gradients[w][i], 1e-6) << i;
    }
    EXPECT_NE(pass_of(plain, mean_squared_error).gradients[w], expected.gradients[w]);
  }
}

TEST(Loss, LogitsAreThoseOfTheLoss) {
  const NetSpec spec = test::net_of_three_losses(1);
  const Pass pass = pass_of(spec, {});
  const std::vector<std::int32_t> labels = test::cyclic_labels(8, 5);
  for (std::size_t w = 0; w < 2; ++w) {
    EXPECT_EQ(softmax_cross_entropy(std::span(pass.logits).subspan(w * 20, 20), std::span(labels).subspan(w * 4, 4), 5,
                                    {}, {.label_smoothing = spec.label_smoothing})
                  .entropy_loss,
              pass.losses[w].entropy_loss);
  }
}

TEST(Loss, OfTheCallersIsRefusedWithSmoothedLabels) {
  EXPECT_THROW(pass_of(test::net_of_three_losses(0.6f), mean_squared_error), InvalidArgument);
}

}  // namespace
}  // namespace terngrad::loss_test
