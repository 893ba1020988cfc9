#include "tests/nets/cpu/net_comparison.h"

namespace terngrad::test::cpu_pad_channels_test {
namespace {

TEST(PadChannels, PutsZerosBehindTheChannelsOfEachPixel) {
  const LibraryThreads threads(1);
  const NetPlan plan = plan_net({"net", {{"padded", PadChannelsSpec{.num_outputs = 3}}}}, {1, 2, 2}, 6);
  const dnnl::engine engine(dnnl::engine::kind::cpu, 0);
  cpu::Scratchpad scratchpad;
  const cpu::DnnlContext context{engine, dnnl::stream(engine), &scratchpad};
  const auto layer = cpu::make_layer(context, plan.layers[0], plan, {.num_examples = 2});
  const std::vector<float> input = {1, 2, 3, 4, 5, 6, 7, 8};
  const float* const inputs[] = {input.data()};
  std::vector<float> output(12, NAN);
  layer->forward(inputs, output.data());
  EXPECT_EQ(output, (std::vector<float>{1, 2, 0, 3, 4, 0, 5, 6, 0, 7, 8, 0}));

  std::vector<float> gradient = {1, 2, 9, 3, 4, 9, 5, 6, 9, 7, 8, 9};
  std::vector<float> input_gradient(8, NAN);
  float* const targets[] = {input_gradient.data()};
  layer->backward(
      {.inputs = inputs, .output = output.data(), .output_gradient = gradient.data(), .input_gradients = targets});
  EXPECT_EQ(input_gradient, input);
}

TEST(PadChannels, MatchesTheReferenceWithAndWithoutNewChannels) {
  for (const int num_outputs : {4, 5, 40}) {
    const LayerSpec convolution{"conv", ConvolutionSpec{.num_outputs = 4, .kernel = 3}};
    const LayerSpec padded{"padded", PadChannelsSpec{.num_outputs = num_outputs}};
    expect_net_matches_reference({"net", {convolution, padded, logits_layer()}}, {5, 3, 2}, 3, 4);
  }
}

}  // namespace
}  // namespace terngrad::test::cpu_pad_channels_test
