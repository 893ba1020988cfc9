#include "tests/nets/cpu/net_comparison.h"
#include "tests/nets/residual_net.h"

namespace terngrad::test::cpu_add_test {
namespace {

LayerSpec convolution(const char* name, std::vector<std::string> inputs) {
  return {name, ConvolutionSpec{.num_outputs = 5, .kernel = 3}, std::move(inputs)};
}

TEST(Add, MatchesTheReferenceInNetsWithShortcuts) {
  expect_net_matches_reference(residual_net(), {7, 6, 3}, 4, 3);
  expect_net_matches_reference(residual_net(), {8, 8, 2}, 3, 2);
}

TEST(Add, TakesAnyNumberOfInputsAndOneTwice) {
  for (const Activation activation : {Activation::kNone, Activation::kRelu}) {
    const LayerSpec sum{"sum", AddSpec{activation}, {"a", "b", "a", "c"}};
    expect_net_matches_reference(
        {"net",
         {convolution("a", {"image"}), convolution("b", {"image"}), convolution("c", {"image"}), sum, logits_layer()}},
        {4, 5, 2}, 3, 9);
  }
}

/// Output of a layer that adds `inputs`, and the gradients of the inputs for the output gradient 1, 2, 3, ...
std::pair<std::vector<float>, std::vector<std::vector<float>>> sum_of(const std::vector<std::vector<float>>& inputs,
                                                                      Activation activation, int num_threads) {
  const LibraryThreads threads(1);
  const auto size = static_cast<int>(inputs[0].size());
  const NetPlan plan = plan_net(
      {"net", {{"sum", AddSpec{activation}, std::vector<std::string>(inputs.size(), "image")}}}, {1, 1, size}, size);
  const dnnl::engine engine(dnnl::engine::kind::cpu, 0);
  cpu::Scratchpad scratchpad;
  const cpu::DnnlContext context{engine, dnnl::stream(engine), &scratchpad};
  const auto layer = cpu::make_layer(context, plan.layers[0], plan, {.num_examples = 1, .num_threads = num_threads});
  std::vector<const float*> sources;
  std::vector<std::vector<float>> gradients(inputs.size(), std::vector<float>(inputs[0].size(), NAN));
  std::vector<float*> targets;
  for (std::size_t i = 0; i < inputs.size(); ++i) {
    sources.push_back(inputs[i].data());
    targets.push_back(gradients[i].data());
  }
  std::vector<float> output(inputs[0].size(), 7);
  std::vector<float> gradient(inputs[0].size());
  for (std::size_t i = 0; i < gradient.size(); ++i) gradient[i] = static_cast<float>(i + 1);
  layer->forward(sources, output.data());
  layer->backward(
      {.inputs = sources, .output = output.data(), .output_gradient = gradient.data(), .input_gradients = targets});
  return {output, gradients};
}

TEST(Add, AReluTakesAwayGradientsOfWhatIsNotPositiveAndNoNan) {
  const auto [output, gradients] = sum_of({{1, -3, 2, NAN}, {2, 1, -2, 1}}, Activation::kRelu, 1);
  EXPECT_EQ(output[0], 3);
  EXPECT_EQ(output[1], 0);
  EXPECT_EQ(output[2], 0);
  EXPECT_TRUE(std::isnan(output[3]));
  for (const std::vector<float>& gradient : gradients) EXPECT_EQ(gradient, (std::vector<float>{1, 0, 0, 0}));
}

TEST(Add, HasTheSameBitsWithAnyNumberOfThreads) {
  std::vector<std::vector<float>> inputs;
  for (const std::uint32_t stream : {1u, 2u, 3u}) inputs.push_back(random_floats(4096 * 3 + 5, stream));
  const auto [output, gradients] = sum_of(inputs, Activation::kRelu, 1);
  for (const int num_threads : {2, 5}) {
    const auto [other, other_gradients] = sum_of(inputs, Activation::kRelu, num_threads);
    EXPECT_EQ(other, output);
    EXPECT_EQ(other_gradients, gradients);
  }
  for (std::size_t i = 0; i < output.size(); ++i) {
    const float sum = inputs[0][i] + inputs[1][i] + inputs[2][i];
    ASSERT_EQ(output[i], sum > 0 ? sum : 0) << i;
  }
}

}  // namespace
}  // namespace terngrad::test::cpu_add_test
