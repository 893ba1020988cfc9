#include "nets/net_plan.h"

#include <gtest/gtest.h>

#include <cmath>
#include <string>

#include "kernels/errors.h"
#include "nets/lenet.h"

namespace terngrad {
namespace {

LayerPlan plan_pool(int size, int window, int stride, Padding padding) {
  NetSpec spec{"net", {{"pool", MaxPoolSpec{.window = window, .stride = stride, .padding = padding}}}};
  const int output = padding == Padding::kSame ? (size + stride - 1) / stride : (size - window) / stride + 1;
  return plan_net(spec, {size, size, 1}, output * output).layers[0];
}

TEST(PlanNet, SamePaddingPutsTheOddRowAtTheBottom) {
  const LayerPlan odd = plan_pool(24, 3, 2, Padding::kSame);  // total 1
  EXPECT_EQ(odd.output.height, 12);
  EXPECT_EQ(odd.padding.top, 0);
  EXPECT_EQ(odd.padding.bottom, 1);
  const LayerPlan even = plan_pool(28, 5, 1, Padding::kSame);  // total 4
  EXPECT_EQ(even.padding.left, 2);
  EXPECT_EQ(even.padding.right, 2);
  const LayerPlan skipping = plan_pool(7, 1, 3, Padding::kSame);  // windows do not touch: nothing to pad
  EXPECT_EQ(skipping.output.width, 3);
  EXPECT_EQ(skipping.padding.right, 0);
}

TEST(PlanNet, ValidPaddingPadsNothing) {
  const LayerPlan layer = plan_pool(7, 3, 2, Padding::kValid);
  EXPECT_EQ(layer.output.height, 3);
  EXPECT_EQ(layer.padding.bottom, 0);
  EXPECT_THROW(plan_pool(2, 3, 1, Padding::kValid), InvalidArgument);
}

TEST(PlanNet, APoolTakesTheReluGradientOfTheLayerBefore) {
  const NetPlan plan = plan_net(lenet(), {28, 28, 1}, 10);
  const bool expected[] = {false, true, false, true, true, false};
  for (std::size_t l = 0; l < 6; ++l) EXPECT_EQ(plan.layers[l].applies_relu_gradient, expected[l]) << l;
}

TEST(PlanNet, RefusesImpossibleImagesAndClasses) {
  for (const ImageShape shape : {ImageShape{0, 28, 1}, ImageShape{28, -1, 1}, ImageShape{28, 28, 0},
                                 ImageShape{1 << 20, 1, 1}, ImageShape{32768, 32768, 3}}) {
    EXPECT_THROW(plan_net(lenet(), shape, 10), InvalidArgument) << shape.height << "x" << shape.width;
  }
  EXPECT_THROW(plan_net(lenet(), {28, 28, 1}, 0), InvalidArgument);
  EXPECT_THROW(plan_net(lenet(), {28, 28, 1}, -3), InvalidArgument);
}

TEST(PlanNet, MessagesSayWhatWasExpectedAndWhatCame) {
  try {
    plan_net(lenet(), {0, 28, 1}, 10);
    FAIL() << "an empty image was planned";
  } catch (const InvalidArgument& error) {
    EXPECT_NE(std::string(error.what()).find("lenet"), std::string::npos);
    EXPECT_NE(std::string(error.what()).find("0 x 28 x 1"), std::string::npos);
  }
}

TEST(PlanNet, RefusesANetWhoseLastLayerDoesNotGiveTheLogits) {
  NetSpec spec{"net", {{"fc", FullyConnectedSpec{.num_outputs = 3}}}};
  EXPECT_THROW(plan_net(spec, {2, 2, 1}, 4), InvalidArgument);
  EXPECT_THROW(plan_net({"empty", {}}, {2, 2, 1}, 4), InvalidArgument);
}

TEST(PlanNet, AnLrnKeepsTheShapeAndTheReluOfTheLayerBefore) {
  const ConvolutionSpec conv{
      .num_outputs = 4, .kernel = 3, .activation = Activation::kRelu, .weights = {}, .biases = {}};
  const NetPlan plan = plan_net({"net",
                                 {{"conv", conv},
                                  {"lrn", LrnSpec{.radius = 2}},
                                  {"pool", MaxPoolSpec{.window = 2, .stride = 2}},
                                  {"average", AveragePoolSpec{.window = 2, .stride = 2}},
                                  {"fc", FullyConnectedSpec{.weights = {}, .biases = {}}}}},
                                {8, 8, 1}, 3);
  EXPECT_EQ(plan.layers[1].output, (ImageShape{8, 8, 4}));
  EXPECT_EQ(plan.layers[1].weights, -1);
  EXPECT_EQ(plan.layers[3].output, (ImageShape{2, 2, 4}));
  const bool expected[] = {true, false, false, false, false};
  for (std::size_t l = 0; l < 5; ++l) EXPECT_EQ(plan.layers[l].applies_relu_gradient, expected[l]) << l;
}

TEST(PlanNet, RefusesAnLrnThatCouldRaiseWhatIsNotPositive) {
  const auto plan = [](const LrnSpec& lrn) { return plan_net({"net", {{"lrn", lrn}}}, {1, 1, 3}, 3); };
  EXPECT_NO_THROW(plan({.radius = 0, .k = 1, .alpha = 0, .beta = 1}));
  for (const LrnSpec& lrn :
       {LrnSpec{.radius = -1}, LrnSpec{.k = 0}, LrnSpec{.k = -1}, LrnSpec{.k = NAN}, LrnSpec{.alpha = -1e-4f},
        LrnSpec{.alpha = INFINITY}, LrnSpec{.beta = 0}, LrnSpec{.beta = -0.75f}, LrnSpec{.beta = NAN}}) {
    EXPECT_THROW(plan(lrn), InvalidArgument) << lrn.radius << ' ' << lrn.k << ' ' << lrn.alpha << ' ' << lrn.beta;
  }
}

}  // namespace
}  // namespace terngrad
