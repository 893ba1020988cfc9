#include <tuple>
#include <utility>
#include <vector>

#include "tests/nets/cpu/layer_comparison.h"

namespace terngrad::test::cpu_convolution_test {
namespace {

constexpr double kTolerance = 2e-6;  // float sums of up to 500 products

LayerSpec convolution(int num_outputs, int kernel, int stride, Padding padding, Activation activation) {
  return {"conv", ConvolutionSpec{.num_outputs = num_outputs,
                                  .kernel = kernel,
                                  .stride = stride,
                                  .padding = padding,
                                  .activation = activation}};
}

TEST(Convolution, MatchesReferenceOnOddShapes) {
  for (const int channels : {1, 3, 16, 20}) {
    for (const int outputs : {1, 7, 50}) {
      SCOPED_TRACE(::testing::Message() << channels << " -> " << outputs);
      const NetPlan plan = plan_of_layer(convolution(outputs, 5, 1, Padding::kSame, Activation::kNone),
                                         {6, 9, channels}, 6 * 9 * outputs);
      expect_layer_matches_reference(plan, 3, kTolerance);
    }
  }
}

TEST(Convolution, MatchesReferenceWithRelu) {
  const NetPlan plan = plan_of_layer(convolution(10, 3, 1, Padding::kSame, Activation::kRelu), {7, 5, 4}, 7 * 5 * 10);
  expect_layer_matches_reference(plan, 2, kTolerance);
}

TEST(Convolution, MatchesReferenceWithAsymmetricPaddingAndStride) {
  // 3x3 with stride 2 on 8 rows: no padding above, one row below.
  const NetPlan plan = plan_of_layer(convolution(6, 3, 2, Padding::kSame, Activation::kNone), {8, 6, 5}, 4 * 3 * 6);
  ASSERT_EQ(plan.layers[0].padding.top, 0);
  ASSERT_EQ(plan.layers[0].padding.bottom, 1);
  expect_layer_matches_reference(plan, 2, kTolerance);
}

TEST(Convolution, MatchesReferenceWithHalfTheKernelAtTheTopWhateverTheStride) {
  const NetPlan plan = plan_of_layer(convolution(6, 3, 2, Padding::kHalf, Activation::kNone), {8, 7, 5}, 4 * 4 * 6);
  ASSERT_EQ(plan.layers[0].padding.top, 1);
  ASSERT_EQ(plan.layers[0].padding.bottom, 0);
  expect_layer_matches_reference(plan, 2, kTolerance);
}

TEST(Convolution, MatchesReferenceWithRectangularKernels) {
  for (const auto& [height, width] : {std::pair(1, 7), std::pair(7, 1), std::pair(3, 2)}) {
    const LayerSpec spec{"conv", ConvolutionSpec{.num_outputs = 6, .kernel = {height, width}}};
    const NetPlan plan = plan_of_layer(spec, {6, 5, 3}, 6 * 5 * 6);
    EXPECT_EQ(plan.layout.segment(0).shape, (std::vector<std::int64_t>{height, width, 3, 6}));
    expect_layer_matches_reference(plan, 2, kTolerance);
  }
}

TEST(Convolution, MatchesReferenceWithEvenKernel) {
  const NetPlan plan = plan_of_layer(convolution(3, 4, 1, Padding::kSame, Activation::kNone), {5, 5, 2}, 5 * 5 * 3);
  expect_layer_matches_reference(plan, 2, kTolerance);
}

TEST(Convolution, MatchesReferenceWithoutPadding) {
  const NetPlan plan = plan_of_layer(convolution(8, 3, 1, Padding::kValid, Activation::kNone), {5, 7, 3}, 3 * 5 * 8);
  expect_layer_matches_reference(plan, 1, kTolerance);
}

TEST(Convolution, MatchesReferenceWithStridesLargerThanTheKernelAndTwoThatAreNot) {
  for (const int stride : {2, 3, 4}) {
    for (const int kernel : {1, 3, 5}) {
      SCOPED_TRACE(::testing::Message() << "kernel " << kernel << ", stride " << stride);
      const int rows = (11 + stride - 1) / stride;
      const int columns = (8 + stride - 1) / stride;
      expect_layer_matches_reference(plan_of_layer(convolution(7, kernel, stride, Padding::kSame, Activation::kRelu),
                                                   {11, 8, 4}, rows * columns * 7),
                                     2, kTolerance);
    }
  }
  expect_layer_matches_reference(
      plan_of_layer(convolution(16, 11, 4, Padding::kValid, Activation::kRelu), {23, 27, 3}, 4 * 5 * 16), 2,
      kTolerance);
}

TEST(Convolution, MatchesReferenceWithGroups) {
  for (const auto& [channels, outputs, groups] :
       {std::tuple{4, 6, 2}, {6, 3, 3}, {32, 32, 2}, {48, 16, 2}, {5, 5, 5}, {8, 16, 8}}) {
    for (const int stride : {1, 2}) {
      SCOPED_TRACE(::testing::Message() << channels << " -> " << outputs << " in " << groups << ", stride " << stride);
      LayerSpec layer = convolution(outputs, 3, stride, Padding::kSame, Activation::kRelu);
      std::get<ConvolutionSpec>(layer.operation).groups = groups;
      const NetPlan plan = plan_of_layer(layer, {6, 4, channels}, 24 / stride / stride * outputs);
      EXPECT_EQ(plan.layout.segment(0).shape, (std::vector<std::int64_t>{3, 3, channels / groups, outputs}));
      expect_layer_matches_reference(plan, 3, kTolerance);
    }
  }
}

TEST(Convolution, MatchesReferenceWithoutBiases) {
  for (const int groups : {1, 2}) {
    LayerSpec layer = convolution(6, 3, 1, Padding::kSame, Activation::kNone);
    std::get<ConvolutionSpec>(layer.operation).biases = std::nullopt;
    std::get<ConvolutionSpec>(layer.operation).groups = groups;
    const NetPlan plan = plan_of_layer(layer, {5, 7, 4}, 5 * 7 * 6);
    EXPECT_EQ(plan.layout.num_segments(), 1);
    expect_layer_matches_reference(plan, 2, kTolerance);
  }
}

TEST(Convolution, MatchesReferenceOnOnePixel) {
  const NetPlan plan = plan_of_layer(convolution(4, 5, 1, Padding::kSame, Activation::kNone), {1, 1, 2}, 4);
  expect_layer_matches_reference(plan, 1, kTolerance);
}

}  // namespace
}  // namespace terngrad::test::cpu_convolution_test
