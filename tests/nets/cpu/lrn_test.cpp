#include "tests/nets/cpu/layer_comparison.h"

namespace terngrad::test::cpu_lrn_test {
namespace {

constexpr double kTolerance = 2e-6;

/// alpha is so large that the sum of squares matters.
LayerSpec lrn(int radius, float beta = 0.75f) {
  return {"lrn", LrnSpec{.radius = radius, .k = 2, .alpha = 0.5f, .beta = beta}};
}

TEST(Lrn, MatchesReferenceOnAwkwardNumbersOfChannels) {
  for (const int channels : {1, 3, 5, 20, 64, 65}) {
    for (const int radius : {0, 1, 2, 4, 5, 100}) {
      SCOPED_TRACE(::testing::Message() << channels << " channels, radius " << radius);
      expect_layer_matches_reference(plan_of_layer(lrn(radius), {3, 5, channels}, 15 * channels), 3, kTolerance);
    }
  }
}

TEST(Lrn, MatchesReferenceForOtherExponents) {
  for (const float beta : {0.5f, 0.6f, 1.0f, 1.5f}) {
    SCOPED_TRACE(beta);
    expect_layer_matches_reference(plan_of_layer(lrn(2, beta), {3, 5, 21}, 15 * 21), 2, kTolerance);
  }
}

TEST(Lrn, ReferenceAgreesWithCentralDifferences) {
  for (const int radius : {0, 2, 9}) {
    for (const float beta : {0.75f, 1.2f}) {
      expect_reference_agrees_with_central_differences(plan_of_layer(lrn(radius, beta), {2, 2, 7}, 28));
    }
  }
}

TEST(Lrn, DoesNotDependOnTheNumberOfThreads) {
  const NetPlan plan = plan_of_layer(lrn(4), {3, 3, 20}, 180);
  constexpr int kExamples = 5;  // 45 pixels: parts of unequal size
  const auto input = random_floats(kExamples * 180, 1);
  const dnnl::engine engine(dnnl::engine::kind::cpu, 0);
  cpu::Scratchpad scratchpad;
  const cpu::DnnlContext context{engine, dnnl::stream(engine), &scratchpad};
  std::vector<std::vector<float>> results;
  for (const int num_threads : {1, 2, 4, 64}) {
    const auto layer =
        cpu::make_layer(context, plan.layers[0], plan, {.num_examples = kExamples, .num_threads = num_threads});
    std::vector<float> output(input.size(), NAN);
    auto output_gradient = random_floats(input.size(), 3);
    std::vector<float> input_gradient(input.size(), NAN);
    const float* const inputs[] = {input.data()};
    float* const input_gradients[] = {input_gradient.data()};
    layer->forward(inputs, output.data());
    layer->backward({.inputs = inputs,
                     .output = output.data(),
                     .output_gradient = output_gradient.data(),
                     .input_gradients = input_gradients,
                     .gradient = nullptr});
    output.insert(output.end(), input_gradient.begin(), input_gradient.end());
    results.push_back(output);
    EXPECT_EQ(results.back(), results.front()) << num_threads << " threads";
  }
}

}  // namespace
}  // namespace terngrad::test::cpu_lrn_test
