#include "tests/nets/cpu/net_comparison.h"

namespace terngrad::test::cpu_dropout_test {
namespace {

LayerSpec dropout(const char* name, float keep_prob) { return {name, DropoutSpec{.keep_prob = keep_prob}}; }
LayerSpec fully_connected(const char* name, int num_outputs) {
  return {name, FullyConnectedSpec{.num_outputs = num_outputs}};
}

TEST(Dropout, MatchesReferenceWithSeveralLayers) {
  // Slices of 3 x 7 and 3 x 5 elements end inside a block of draws.
  expect_net_matches_reference({"net",
                                {fully_connected("a", 7), dropout("drop_a", 0.5f), fully_connected("b", 5),
                                 dropout("drop_b", 0.8f), logits_layer()}},
                               {2, 3, 2}, 4, 3);
}

TEST(Dropout, MatchesReferenceOnTheImageAndOnManyElements) {
  expect_net_matches_reference({"net", {dropout("drop", 0.7f), fully_connected("a", 4), logits_layer()}}, {1, 50, 100},
                               3, 2, 5e-5);
}

/// Output of a dropout layer for an input of ones.
std::vector<float> output_of(const DropoutSpec& spec, int num_elements, const cpu::Pass& pass,
                             const cpu::LayerOptions& options) {
  const LibraryThreads threads(1);
  const NetPlan plan = plan_net({"net", {{"drop", spec}}}, {1, 1, num_elements}, num_elements);
  const auto layer = cpu::make_dropout(plan.layers[0], options);
  const std::vector<float> ones(static_cast<std::size_t>(num_elements), 1.0f);
  std::vector<float> output(ones.size(), NAN);
  const float* const inputs = ones.data();
  layer->begin(pass);
  layer->forward({&inputs, 1}, output.data());
  return output;
}

TEST(Dropout, DependsOnSeedStepWorkerAndPlaceOnly) {
  const cpu::Pass pass{.seed = 3, .step = 4, .worker = 5};
  constexpr int kElements = 20000;
  const auto masks = output_of({.keep_prob = 0.5f}, kElements, pass, {.first_draw = 8});
  EXPECT_EQ(output_of({.keep_prob = 0.5f}, kElements, pass, {.num_threads = 3, .first_draw = 8}), masks);
  for (const cpu::Pass& other : {cpu::Pass{.seed = 2, .step = 4, .worker = 5},
                                 {.seed = 3, .step = 5, .worker = 5},
                                 {.seed = 3, .step = 4, .worker = 6}}) {
    EXPECT_NE(output_of({.keep_prob = 0.5f}, kElements, other, {.first_draw = 8}), masks);
  }
  const auto later = output_of({.keep_prob = 0.5f}, kElements - 8, pass, {.first_draw = 16});
  EXPECT_TRUE(std::equal(later.begin(), later.end(), masks.begin() + 8));
}

TEST(Dropout, KeepsTheExpectationInTrainingAndEverythingInEvaluation) {
  constexpr int kElements = 1 << 15;
  for (const float keep_prob : {0.1f, 0.5f, 0.8f}) {
    const auto output = output_of({.keep_prob = keep_prob}, kElements, {}, {});
    double sum = 0;
    for (const float value : output) {
      EXPECT_TRUE(value == 0 || value == 1 / keep_prob);
      sum += static_cast<double>(value);
    }
    const double p = static_cast<double>(keep_prob);
    EXPECT_NEAR(sum / kElements, 1, 5 * std::sqrt((1 - p) / p / kElements));  // five standard errors
    const auto same = output_of({.keep_prob = keep_prob}, kElements, {}, {.mode = Mode::kInference});
    EXPECT_EQ(same, std::vector<float>(kElements, 1.0f));
  }
  EXPECT_EQ(output_of({.keep_prob = 1}, kElements, {}, {}), std::vector<float>(kElements, 1.0f));
}

}  // namespace
}  // namespace terngrad::test::cpu_dropout_test
