#include <limits>

#include "tests/nets/cpu/net_comparison.h"
#include "tests/support/sanitized.h"

namespace terngrad::test::cpu_batch_norm_test {
namespace {

LayerSpec convolution(int num_outputs) {
  return {"conv", ConvolutionSpec{.num_outputs = num_outputs, .kernel = 3, .biases = std::nullopt}};
}

LayerSpec norm(Activation activation, std::optional<Initializer> gamma = std::nullopt) {
  return {"norm", BatchNormSpec{.decay = 0.9f, .activation = activation, .gamma = gamma}};
}

TEST(BatchNorm, MatchesReferenceForEveryKindAndNumberOfChannels) {
  for (const int channels : testing::few({3, 33, 1, 8, 16, 20})) {
    for (const Activation activation : {Activation::kNone, Activation::kRelu}) {
      for (const bool has_gamma : {false, true}) {
        SCOPED_TRACE(::testing::Message()
                     << channels << " channels, ReLU " << (activation == Activation::kRelu) << ", gamma " << has_gamma);
        const auto gamma = has_gamma ? std::optional(Initializer::constant(1)) : std::nullopt;
        expect_net_matches_reference({"net", {convolution(channels), norm(activation, gamma), logits_layer()}},
                                     {5, 4, 2}, 3, 3);
      }
    }
  }
}

TEST(BatchNorm, MatchesReferenceOnVectorsAndOnOneExample) {
  const LayerSpec vector{
      "conv", ConvolutionSpec{.num_outputs = 10, .kernel = 2, .padding = Padding::kValid, .biases = std::nullopt}};
  expect_net_matches_reference({"net", {vector, norm(Activation::kRelu), logits_layer()}}, {2, 2, 3}, 4, 7);
  expect_net_matches_reference({"net", {convolution(6), norm(Activation::kRelu), logits_layer()}}, {5, 5, 1}, 3, 1);
}

TEST(BatchNorm, MatchesReferenceOnTheImageAndBelowAPool) {
  const LayerSpec pool{"pool", MaxPoolSpec{.window = 2, .stride = 2}};
  expect_net_matches_reference({"net", {norm(Activation::kRelu, Initializer::constant(1)), pool, logits_layer()}},
                               {6, 6, 3}, 3, 2);
}

/// One training pass of a batch norm over the image, forward and backward.
struct NormPass {
  std::vector<float> output;
  std::vector<float> input_gradient;
  std::vector<float> gradient;
  std::vector<float> state;

  NormPass(Activation activation, const std::vector<float>& input, std::vector<float> output_gradient, int channels,
           int num_examples) {
    const LibraryThreads threads(1);
    const int pixels = static_cast<int>(input.size()) / channels / num_examples;
    const NetPlan plan =
        plan_net({"net", {norm(activation, Initializer::constant(1))}}, {1, pixels, channels}, pixels * channels);
    const dnnl::engine engine(dnnl::engine::kind::cpu, 0);
    cpu::Scratchpad scratchpad;
    const cpu::DnnlContext context{engine, dnnl::stream(engine), &scratchpad};
    const auto layer = cpu::make_layer(context, plan.layers[0], plan, {.num_examples = num_examples});
    scratchpad.allocate();
    const auto parameters = random_floats(static_cast<std::size_t>(plan.layout.flat_elements()), 4);
    const Doubles initial = initial_state(plan);
    state.assign(initial.begin(), initial.end());
    output.assign(input.size(), NAN);
    input_gradient.assign(input.size(), NAN);
    gradient.assign(parameters.size(), NAN);
    const float* const inputs = input.data();
    float* const input_gradients = input_gradient.data();
    layer->set_parameters(parameters.data());
    layer->begin({.training_state = state.data()});
    layer->forward({&inputs, 1}, output.data());
    layer->backward({.inputs = {&inputs, 1},
                     .output = output.data(),
                     .output_gradient = output_gradient.data(),
                     .input_gradients = {&input_gradients, 1},
                     .gradient = gradient.data()});
  }
};

TEST(BatchNorm, PassesGradientsOnWhereItsReluIsPositive) {
  for (const int channels : {3, 8, 16, 20}) {  // oneDNN chooses the implementation by channels
    SCOPED_TRACE(channels);
    const auto input = random_floats(static_cast<std::size_t>(4 * 6 * channels), 1);
    const auto output_gradient = random_floats(input.size(), 2);
    const NormPass plain(Activation::kNone, input, output_gradient, channels, 4);
    const NormPass fused(Activation::kRelu, input, output_gradient, channels, 4);
    auto masked = output_gradient;
    int num_masked = 0;
    for (std::size_t i = 0; i < input.size(); ++i) {
      EXPECT_NEAR(fused.output[i], std::max(plain.output[i], 0.0f), 1e-6) << i;
      if (fused.output[i] > 0) continue;
      masked[i] = 0;
      ++num_masked;
    }
    EXPECT_GT(num_masked, 0);
    const NormPass separate(Activation::kNone, input, masked, channels, 4);
    EXPECT_LE(relative_difference(fused.input_gradient, widen(separate.input_gradient)), 1e-6);
    EXPECT_LE(relative_difference(std::span(fused.gradient).first(static_cast<std::size_t>(channels)),
                                  widen(std::span(separate.gradient).first(static_cast<std::size_t>(channels)))),
              1e-6);
    EXPECT_LE(relative_difference(fused.state, widen(plain.state)), 1e-6);
  }
}

TEST(BatchNorm, TheFirstPassReplacesTheInitialState) {
  const std::vector<float> input = {1, -2, 3, 6};  // two channels, two examples
  const NormPass pass(Activation::kNone, input, {1, 1, 1, 1}, 2, 2);
  EXPECT_EQ(pass.state[0], 2);
  EXPECT_EQ(pass.state[1], 2);
  EXPECT_EQ(pass.state[16], 1);  // tensors start at multiples of 16
  EXPECT_EQ(pass.state[17], 16);
  EXPECT_FLOAT_EQ(pass.state[32], 0.1f);
}

TEST(BatchNorm, ABatchThatIsNotFiniteLeavesTheState) {
  for (const float bad : {std::numeric_limits<float>::infinity(), std::numeric_limits<float>::quiet_NaN()}) {
    const NormPass pass(Activation::kRelu, {1, bad, 3, 6}, {1, 1, 1, 1}, 2, 2);
    EXPECT_EQ(pass.state[0], 0);
    EXPECT_EQ(pass.state[16], 1);
    EXPECT_EQ(pass.state[32], 0);
    EXPECT_FALSE(std::isfinite(pass.input_gradient[1])) << "the exchange must see that something was wrong";
  }
}

}  // namespace
}  // namespace terngrad::test::cpu_batch_norm_test
