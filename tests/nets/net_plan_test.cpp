#include "nets/net_plan.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <string>
#include <utility>
#include <vector>

#include "kernels/runtime/errors.h"
#include "nets/models/lenet.h"
#include "tests/nets/auxiliary_net.h"
#include "tests/nets/branched_net.h"

namespace terngrad::net_plan_test {
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
  const LayerPlan skipping = plan_pool(7, 1, 3, Padding::kSame);  // windows do not touch: no padding
  EXPECT_EQ(skipping.output.width, 3);
  EXPECT_EQ(skipping.padding.right, 0);
}

TEST(PlanNet, LeavesOutOfInferenceWhatOnlyAuxiliaryLossesTake) {
  const NetPlan plan = plan_net(test::net_of_three_losses(0.5f), {7, 9, 3}, 4);
  ASSERT_EQ(plan.auxiliary_losses.size(), 2u);
  EXPECT_EQ(plan.layers[static_cast<std::size_t>(plan.auxiliary_losses[0].layer)].name, "auxiliary1_logits");
  EXPECT_EQ(plan.auxiliary_losses[0].weight, 0.4f);
  EXPECT_EQ(plan.label_smoothing, 0.1f);
  for (const LayerPlan& layer : plan.layers) {
    EXPECT_EQ(layer.is_training_only, layer.name.starts_with("auxiliary")) << layer.name;
  }
  for (const Segment& segment : plan.layout.segments()) {
    EXPECT_EQ(segment.is_logits, segment.name.starts_with("logits/")) << segment.name;
  }
}

TEST(PlanNet, RefusesImpossibleAuxiliaryLosses) {
  const auto expect_refused = [](auto&& change, const char* words) {
    NetSpec spec = test::net_of_three_losses(0.5f);
    change(spec);
    try {
      plan_net(spec, {7, 9, 3}, 4);
      ADD_FAILURE() << "taken: " << words;
    } catch (const InvalidArgument& error) {
      EXPECT_NE(std::string(error.what()).find(words), std::string::npos) << error.what();
    }
  };
  expect_refused([](NetSpec& spec) { spec.auxiliary_losses[0].layer = "none"; }, "names 'none'");
  expect_refused([](NetSpec& spec) { spec.auxiliary_losses[0].layer = "logits"; }, "names 'logits'");
  expect_refused([](NetSpec& spec) { spec.auxiliary_losses[0].layer = kImageInput; }, "names 'image'");
  expect_refused([](NetSpec& spec) { spec.auxiliary_losses[0].layer = "auxiliary1_whole"; }, "to no layer");
  expect_refused([](NetSpec& spec) { std::get<FullyConnectedSpec>(spec.layers[4].operation).num_outputs = 3; },
                 "must give 4 logits");
  expect_refused([](NetSpec& spec) { spec.auxiliary_losses[1].layer = "auxiliary1_logits"; }, "two auxiliary losses");
  expect_refused([](NetSpec& spec) { spec.auxiliary_losses[0].weight = 0; }, "must be a positive number");
  expect_refused([](NetSpec& spec) { spec.auxiliary_losses.clear(); }, "no layer takes this output");
  expect_refused([](NetSpec& spec) { spec.label_smoothing = 1; }, "label_smoothing must be in [0, 1)");
  expect_refused([](NetSpec& spec) { spec.label_smoothing = -0.1f; }, "label_smoothing must be in [0, 1)");
  expect_refused([](NetSpec& spec) { std::get<ConvolutionSpec>(spec.layers[2].operation).stride = 2; },
                 "the stride must be 1");
}

TEST(PlanNet, AConvolutionWithoutAKernelIsAsLargeAsItsInput) {
  const NetPlan plan = plan_net({"net", {{"whole", ConvolutionSpec{.num_outputs = 6}}}}, {3, 5, 2}, 6);
  EXPECT_EQ(plan.layers[0].window, WindowSize(3, 5));
  EXPECT_EQ(plan.layers[0].padding.top, 0);
  EXPECT_EQ(plan.layers[0].output, (ImageShape{1, 1, 6}));
  EXPECT_EQ(plan.layout.segment(0).shape, (std::vector<std::int64_t>{3, 5, 2, 6}));
}

TEST(PlanNet, ValidPaddingPadsNothing) {
  const LayerPlan layer = plan_pool(7, 3, 2, Padding::kValid);
  EXPECT_EQ(layer.output.height, 3);
  EXPECT_EQ(layer.padding.bottom, 0);
  EXPECT_THROW(plan_pool(2, 3, 1, Padding::kValid), InvalidArgument);
}

TEST(PlanNet, HalfPaddingDoesNotDependOnTheStride) {
  for (const int stride : {1, 2, 3}) {
    for (const int size : {8, 9, 32}) {
      const LayerPlan layer =
          plan_net({"net",
                    {{"pool", MaxPoolSpec{.window = 3, .stride = stride, .padding = Padding::kHalf}},
                     {"logits", FullyConnectedSpec{}}}},
                   {size, size, 1}, 2)
              .layers[0];
      EXPECT_EQ(layer.output.height, (size + 2 - 3) / stride + 1);  // PyTorch's with padding 1
      EXPECT_EQ(layer.padding.top, 1);
      EXPECT_EQ(layer.padding.bottom, std::max((layer.output.height - 1) * stride + 3 - size - 1, 0));
    }
  }
}

TEST(PlanNet, PadsConvolutionsByTwoAsPyTorchDoes) {
  for (const int window : {1, 4, 5, 11}) {
    const ConvolutionSpec convolution{.num_outputs = 1, .kernel = window, .stride = 4, .padding = Padding::kTwo};
    const NetSpec spec{"net", {{"conv", convolution}, {"logits", FullyConnectedSpec{}}}};
    for (const int size : {7, 8, 10}) {
      const LayerPlan layer = plan_net(spec, {size, size, 1}, 2).layers[0];
      EXPECT_EQ(layer.output.height, (size + 4 - window) / 4 + 1);
      EXPECT_EQ(layer.padding.left, 2);
      EXPECT_LE(layer.padding.right, 2);
    }
    if (window > 5) {
      EXPECT_THROW(plan_net(spec, {window - 5, 9, 1}, 2), InvalidArgument);
    }
  }
  const LayerSpec logits{"logits", FullyConnectedSpec{}};
  const MaxPoolSpec largest{.window = 2, .padding = Padding::kTwo};
  EXPECT_THROW(plan_net({"net", {{"pool", largest}, logits}}, {8, 8, 1}, 2), InvalidArgument);
  const AveragePoolSpec average{.window = 2, .padding = Padding::kTwo};
  EXPECT_THROW(plan_net({"net", {{"pool", average}, logits}}, {8, 8, 1}, 2), InvalidArgument);
}

TEST(PlanNet, InitialValuesGetTheirNumbersFromTheFans) {
  const auto planned = [](const Initializer& weights) {
    const ConvolutionSpec convolution{.num_outputs = 6, .kernel = {1, 7}, .weights = weights, .groups = 2};
    return plan_net({"net", {{"conv", convolution}, {"logits", FullyConnectedSpec{.weights = weights}}}}, {2, 3, 8}, 5)
        .tensors;
  };
  const std::vector<TensorPlan> xavier = planned(Initializer::xavier_uniform());
  EXPECT_EQ(xavier[0].initializer.kind, Initializer::Kind::kUniform);
  EXPECT_FLOAT_EQ(xavier[0].initializer.value, std::sqrt(6.0f / (7 * 4 + 7 * 6)));
  EXPECT_FLOAT_EQ(xavier[2].initializer.value, std::sqrt(6.0f / (2 * 3 * 6 + 5)));
  const std::vector<TensorPlan> fan_in = planned(Initializer::fan_in_uniform());
  EXPECT_EQ(fan_in[0].initializer.kind, Initializer::Kind::kUniform);
  EXPECT_FLOAT_EQ(fan_in[0].initializer.value, std::sqrt(3.0f / (7 * 4)));
  EXPECT_FLOAT_EQ(fan_in[2].initializer.value, std::sqrt(3.0f / (2 * 3 * 6)));
  const std::vector<TensorPlan> scaled = planned(Initializer::scaled_normal(2));
  EXPECT_EQ(scaled[0].initializer.kind, Initializer::Kind::kTruncatedNormal);
  EXPECT_FLOAT_EQ(scaled[0].initializer.value, std::sqrt(1.3f * 2 / (7 * 4)));
  EXPECT_EQ(scaled[1].initializer.kind, Initializer::Kind::kConstant);
  const ConvolutionSpec biased{.num_outputs = 1, .kernel = 1, .biases = Initializer::xavier_uniform()};
  EXPECT_THROW(plan_net({"net", {{"conv", biased}}}, {1, 1, 1}, 1), InvalidArgument);
}

TEST(PlanNet, APoolTakesTheReluGradientOfTheLayerBefore) {
  const NetPlan plan = plan_net(lenet(), {28, 28, 1}, 10);
  const bool expected[] = {false, true, false, true, true, false};
  for (std::size_t l = 0; l < 6; ++l) EXPECT_EQ(plan.layers[l].applies_relu_gradient, expected[l]) << l;
}

TEST(PlanNet, ChainsTakeTheLayerBefore) {
  const NetPlan plan = plan_net(lenet(), {28, 28, 1}, 10);
  for (int l = 0; l < 6; ++l) {
    const LayerPlan& layer = plan.layers[static_cast<std::size_t>(l)];
    EXPECT_EQ(layer.inputs, std::vector<int>{l - 1});
    EXPECT_EQ(layer.num_consumers, l < 5 ? 1 : 0);
    EXPECT_TRUE(layer.needs_gradient);
  }
  EXPECT_EQ(plan.state_layout.num_segments(), 0);
}

TEST(PlanNet, WorksOutAGraph) {
  const NetPlan plan = plan_net(test::branched_net(0.5f), {9, 8, 4}, 7);
  const auto layer = [&](const char* name) { return *std::ranges::find(plan.layers, name, &LayerPlan::name); };
  EXPECT_EQ(layer("stem").output, (ImageShape{5, 4, 8}));
  EXPECT_EQ(layer("stem_norm").num_consumers, 3);
  EXPECT_EQ(layer("joined").inputs, (std::vector<int>{2, 3, 1}));
  EXPECT_EQ(layer("joined").input_shapes, (std::vector<ImageShape>{{5, 4, 6}, {5, 4, 8}, {5, 4, 8}}));
  EXPECT_EQ(layer("joined").output, (ImageShape{5, 4, 22}));
  EXPECT_EQ(layer("fc_drop").output, (ImageShape{1, 1, 12}));

  std::vector<std::string> names;
  for (const Segment& segment : plan.layout.segments()) names.push_back(segment.name);
  EXPECT_EQ(names, (std::vector<std::string>{"stem/weights", "stem_norm/beta", "stem_norm/gamma", "grouped/weights",
                                             "grouped/biases", "mix/weights", "mix_norm/beta", "fc/weights",
                                             "fc/biases", "logits/weights", "logits/biases"}));
  EXPECT_EQ(plan.layout.segment(3).shape, (std::vector<std::int64_t>{3, 3, 4, 6}));
  for (std::size_t tensor = 0; tensor < names.size(); ++tensor) {
    EXPECT_EQ(plan.tensors[tensor].is_regularized, names[tensor].ends_with("/weights")) << names[tensor];
  }
  EXPECT_EQ(layer("stem_norm").tensors, (std::vector<int>{1, 2}));
  std::vector<std::string> state;
  for (const Segment& segment : plan.state_layout.segments()) state.push_back(segment.name);
  EXPECT_EQ(state,
            (std::vector<std::string>{"stem_norm/moving_mean", "stem_norm/moving_variance", "stem_norm/moving_weight",
                                      "mix_norm/moving_mean", "mix_norm/moving_variance", "mix_norm/moving_weight"}));
  EXPECT_EQ(plan.state_layout.segment(1).shape, std::vector<std::int64_t>{8});
  EXPECT_EQ(plan.state_layout.segment(2).shape, std::vector<std::int64_t>{1});
  EXPECT_EQ(plan.state_values, (std::vector<float>{0, 1, 0, 0, 1, 0}));
}

/// A convolution with a ReLU, then `second`, then the logits.
NetPlan plan_above_relu(const LayerSpec& second, bool has_other_consumer) {
  const ConvolutionSpec convolution{.num_outputs = 2, .kernel = 1, .activation = Activation::kRelu};
  const LayerSpec third = has_other_consumer ? LayerSpec{"joined", ConcatenationSpec{}, {"second", "first"}}
                                             : LayerSpec{"joined", ConcatenationSpec{}};
  return plan_net({"net", {{"first", convolution}, second, third, {"logits", FullyConnectedSpec{}}}}, {4, 4, 1}, 3);
}

TEST(PlanNet, APoolTakesTheReluGradientOnlyIfNothingElseTakesTheOutput) {
  const LayerSpec pool{"second", MaxPoolSpec{.window = 3, .stride = 1}};
  const NetPlan alone = plan_above_relu(pool, false);
  EXPECT_FALSE(alone.layers[0].applies_relu_gradient);
  EXPECT_TRUE(alone.layers[1].applies_relu_gradient);
  const NetPlan shared = plan_above_relu(pool, true);
  EXPECT_TRUE(shared.layers[0].applies_relu_gradient);
  EXPECT_FALSE(shared.layers[1].applies_relu_gradient);
  EXPECT_TRUE(plan_above_relu({"second", DropoutSpec{}}, false).layers[0].applies_relu_gradient);
}

TEST(PlanNet, BelowTheFirstTensorNothingNeedsAGradient) {
  const NetPlan plan = plan_net({"net",
                                 {{"pool", MaxPoolSpec{.window = 2, .stride = 2}},
                                  {"fc", FullyConnectedSpec{.num_outputs = 3}},
                                  {"both", ConcatenationSpec{}, {"fc", "fc"}}}},
                                {4, 4, 1}, 6);
  EXPECT_FALSE(plan.layers[0].needs_gradient);
  EXPECT_TRUE(plan.layers[1].needs_gradient);
  EXPECT_TRUE(plan.layers[2].needs_gradient);
}

TEST(PlanNet, RefusesGraphsThatAreNone) {
  const FullyConnectedSpec fc{.num_outputs = 4};
  const auto message = [&](std::vector<LayerSpec> layers) -> std::string {
    try {
      plan_net({"net", std::move(layers)}, {2, 2, 2}, 4);
    } catch (const InvalidArgument& error) {
      return error.what();
    }
    return "";
  };
  const auto refuses = [&](std::vector<LayerSpec> layers, const char* what) {
    const std::string text = message(std::move(layers));
    EXPECT_NE(text.find(what), std::string::npos) << "'" << text << "' does not say '" << what << "'";
  };
  EXPECT_EQ(message({{"a", fc}, {"b", fc, {"a"}}}), "");
  refuses({{"a", fc}, {"b", fc, {"c"}}}, "'c'");
  refuses({{"a", fc, {"b"}}, {"b", fc, {"a"}}}, "'b'");  // a later layer
  refuses({{"a", fc, {"a"}}}, "'a'");
  refuses({{"a", fc}, {"b", fc, {"a", "image"}}}, "net/b] must take one input, takes 2");
  refuses({{"a", fc}, {"a", fc}}, "'a'");
  refuses({{"image", fc}}, "'image'");
  refuses({{"", fc}}, "name");
  refuses({{"a", fc}, {"b", fc, {"image"}}}, "net/a] no layer takes this output");
  refuses({{"a", fc}, {"b", ConcatenationSpec{}, {"a", "image"}}}, "equal heights and widths");
  refuses({{"a", fc}, {"b", AddSpec{}, {"a", "image"}}}, "must have equal shapes, have 1 x 1 x 4 and 2 x 2 x 2");
  refuses({{"a", fc}, {"b", AddSpec{}}}, "must take two inputs or more");
  refuses({{"a", PadChannelsSpec{.num_outputs = 1}}, {"b", fc}}, "at least the 2 channels of its input, has 1");
  refuses({{"a", AveragePoolSpec{.stride = 2}}, {"b", fc}}, "the stride must be 1");
}

TEST(PlanNet, RefusesNumbersOutOfRange) {
  const auto plan = [](const LayerOperation& operation) {
    plan_net({"net", {{"layer", operation}, {"logits", FullyConnectedSpec{}}}}, {4, 4, 6}, 3);
  };
  EXPECT_NO_THROW(plan(ConvolutionSpec{.num_outputs = 4, .kernel = 1, .groups = 2}));
  for (const int groups : {0, -1, 3, 4, 7}) {
    EXPECT_THROW(plan(ConvolutionSpec{.num_outputs = 4, .kernel = 1, .groups = groups}), InvalidArgument) << groups;
  }
  EXPECT_NO_THROW(plan(DropoutSpec{.keep_prob = 1}));
  for (const float keep_prob : {0.0f, -0.5f, 1.5f, NAN}) {
    EXPECT_THROW(plan(DropoutSpec{.keep_prob = keep_prob}), InvalidArgument) << keep_prob;
  }
  EXPECT_NO_THROW(plan(BatchNormSpec{}));
  for (const float decay : {-0.1f, 1.0f, NAN}) EXPECT_THROW(plan(BatchNormSpec{.decay = decay}), InvalidArgument);
  for (const float epsilon : {0.0f, -1.0f, NAN, INFINITY})
    EXPECT_THROW(plan(BatchNormSpec{.epsilon = epsilon}), InvalidArgument);
}

TEST(FirstDropoutDraws, CountBlocksOfEveryDropoutLayer) {
  const NetPlan plan = plan_net({"net",
                                 {{"a", DropoutSpec{}},
                                  {"fc", FullyConnectedSpec{.num_outputs = 3}},
                                  {"b", DropoutSpec{.keep_prob = 1}},
                                  {"c", DropoutSpec{}}}},
                                {1, 5, 1}, 3);
  // 3 examples: 15 elements take 16 draws, 9 take 12.
  EXPECT_EQ(first_dropout_draws(plan, 3), (std::vector<std::int64_t>{0, 16, 16, 28}));
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
  for (const LrnSpec& lrn : {LrnSpec{.radius = -1}, LrnSpec{.k = 0}, LrnSpec{.k = -1}, LrnSpec{.k = NAN},
                             LrnSpec{.alpha = -1e-4f}, LrnSpec{.alpha = INFINITY}, LrnSpec{.beta = 0},
                             LrnSpec{.beta = -0.75f}, LrnSpec{.beta = NAN}, LrnSpec{.k = 1e-30f}}) {
    EXPECT_THROW(plan(lrn), InvalidArgument) << lrn.radius << ' ' << lrn.k << ' ' << lrn.alpha << ' ' << lrn.beta;
  }
}

}  // namespace
}  // namespace terngrad::net_plan_test
