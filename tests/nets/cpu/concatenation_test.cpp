#include "tests/nets/cpu/net_comparison.h"

namespace terngrad::test::cpu_concatenation_test {
namespace {

LayerSpec convolution(const char* name, int num_outputs, std::vector<std::string> inputs) {
  return {name, ConvolutionSpec{.num_outputs = num_outputs, .kernel = 3}, std::move(inputs)};
}

TEST(Concatenation, PutsChannelsInTheOrderOfInputs) {
  const LibraryThreads threads(1);
  const NetPlan plan = plan_net(
      {"net",
       {{"double", ConcatenationSpec{}, {"image", "image"}}, {"joined", ConcatenationSpec{}, {"double", "image"}}}},
      {1, 2, 1}, 6);
  const dnnl::engine engine(dnnl::engine::kind::cpu, 0);
  cpu::Scratchpad scratchpad;
  const cpu::DnnlContext context{engine, dnnl::stream(engine), &scratchpad};
  const auto layer = cpu::make_layer(context, plan.layers[1], plan, {.num_examples = 2});
  const std::vector<float> wide = {1, 2, 3, 4, 5, 6, 7, 8};
  const std::vector<float> narrow = {-1, -2, -3, -4};
  const float* const inputs[] = {wide.data(), narrow.data()};
  std::vector<float> output(12, NAN);
  layer->forward(inputs, output.data());
  EXPECT_EQ(output, (std::vector<float>{1, 2, -1, 3, 4, -2, 5, 6, -3, 7, 8, -4}));

  std::vector<float> narrow_gradient(4, NAN);
  float* const both[] = {nullptr, narrow_gradient.data()};
  layer->backward(
      {.inputs = inputs, .output = output.data(), .output_gradient = output.data(), .input_gradients = both});
  EXPECT_EQ(narrow_gradient, narrow);
}

TEST(Concatenation, MatchesReferenceWithAnyNumberOfInputs) {
  const LayerSpec a = convolution("a", 5, {"image"});
  const LayerSpec b = convolution("b", 16, {"image"});
  const LayerSpec c = convolution("c", 1, {"image"});
  expect_net_matches_reference({"net", {a, {"joined", ConcatenationSpec{}, {"a"}}, logits_layer()}}, {4, 5, 2}, 3, 2);
  expect_net_matches_reference(
      {"net", {a, b, c, {"joined", ConcatenationSpec{}, {"c", "a", "image", "b"}}, logits_layer()}}, {4, 5, 2}, 3, 9);
}

TEST(Concatenation, AnOutputTakenTwiceByOneLayerGetsBothGradients) {
  expect_net_matches_reference({"net",
                                {convolution("a", 3, {}),
                                 {"twice", ConcatenationSpec{}, {"a", "a", "a"}},
                                 convolution("after", 2, {}),
                                 logits_layer()}},
                               {4, 4, 2}, 3, 2);
}

}  // namespace
}  // namespace terngrad::test::cpu_concatenation_test
