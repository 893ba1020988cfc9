#include "tests/nets/cpu/layer_comparison.h"

namespace terngrad::test::cpu_max_pool_test {
namespace {

constexpr double kExact = 1e-7;  // a maximum is exact; overlapping windows add a few floats

LayerSpec max_pool(int window, int stride, Padding padding) {
  return {"pool", MaxPoolSpec{.window = window, .stride = stride, .padding = padding}};
}

TEST(MaxPool, MatchesReferenceForEveryNumberOfChannels) {
  for (int channels = 1; channels <= 40; ++channels) {
    SCOPED_TRACE(channels);
    expect_layer_matches_reference(plan_of_layer(max_pool(2, 2, Padding::kSame), {4, 6, channels}, 2 * 3 * channels), 2,
                                   kExact);
  }
}

TEST(MaxPool, MatchesReferenceOnOddSizes) {
  // SAME padding on odd sizes is at the bottom and right; it must not be the maximum, even of negative values.
  const NetPlan plan = plan_of_layer(max_pool(2, 2, Padding::kSame), {5, 7, 3}, 3 * 4 * 3);
  ASSERT_EQ(plan.layers[0].padding.bottom, 1);
  expect_layer_matches_reference(plan, 3, kExact);
}

TEST(MaxPool, MatchesReferenceWithOverlappingWindows) {
  expect_layer_matches_reference(plan_of_layer(max_pool(3, 2, Padding::kSame), {8, 8, 5}, 4 * 4 * 5), 2, 3e-7);
  expect_layer_matches_reference(plan_of_layer(max_pool(3, 1, Padding::kSame), {5, 4, 5}, 5 * 4 * 5), 2, 3e-7);
}

TEST(MaxPool, MatchesReferenceWithoutPadding) {
  // Rows outside of all windows get a zero gradient.
  expect_layer_matches_reference(plan_of_layer(max_pool(2, 2, Padding::kValid), {5, 5, 3}, 2 * 2 * 3), 2, kExact);
  expect_layer_matches_reference(plan_of_layer(max_pool(2, 3, Padding::kValid), {8, 8, 3}, 3 * 3 * 3), 2, kExact);
}

TEST(MaxPool, MatchesReferenceWithHalfOfTheWindowBefore) {
  // ResNet's pool: one row of padding above, and one below if the number of rows is odd.
  const NetPlan even = plan_of_layer(max_pool(3, 2, Padding::kHalf), {8, 6, 5}, 4 * 3 * 5);
  ASSERT_EQ(even.layers[0].padding.top, 1);
  ASSERT_EQ(even.layers[0].padding.bottom, 0);
  expect_layer_matches_reference(even, 2, 3e-7);
  expect_layer_matches_reference(plan_of_layer(max_pool(3, 2, Padding::kHalf), {7, 9, 3}, 4 * 5 * 3), 2, 3e-7);
  expect_layer_matches_reference(plan_of_layer(max_pool(4, 3, Padding::kHalf), {8, 2, 3}, 3 * 1 * 3), 2, 3e-7);
}

TEST(MaxPool, MatchesReferenceOnOnePixel) {
  expect_layer_matches_reference(plan_of_layer(max_pool(2, 2, Padding::kSame), {1, 1, 3}, 3), 1, kExact);
}

TEST(MaxPool, GivesTheGradientToTheFirstOfEqualMaxima) {
  const LibraryThreads threads(1);
  const NetPlan plan = plan_of_layer(max_pool(2, 2, Padding::kSame), {2, 2, 1}, 1);
  const dnnl::engine engine(dnnl::engine::kind::cpu, 0);
  cpu::Scratchpad scratchpad;
  const cpu::DnnlContext context{engine, dnnl::stream(engine), &scratchpad};
  const auto layer = cpu::make_layer(context, plan.layers[0], plan, {.num_examples = 1});
  scratchpad.allocate();
  const std::vector<float> input = {1, 3, 3, 2};
  std::vector<float> output(1);
  std::vector<float> output_gradient = {5};
  std::vector<float> input_gradient(4, NAN);
  const float* const inputs = input.data();
  float* const input_gradients = input_gradient.data();
  layer->forward({&inputs, 1}, output.data());
  layer->backward({.inputs = {&inputs, 1},
                   .output = output.data(),
                   .output_gradient = output_gradient.data(),
                   .input_gradients = {&input_gradients, 1},
                   .gradient = nullptr});
  EXPECT_EQ(output[0], 3);
  EXPECT_EQ(input_gradient, (std::vector<float>{0, 5, 0, 0}));
}

}  // namespace
}  // namespace terngrad::test::cpu_max_pool_test
