#include "nets/models/alexnet.h"

#include "tests/nets/models/model_checks.h"

namespace terngrad::alexnet_test {
namespace {

using test::Totals;

NetPlan plan(int num_classes = 1001) { return plan_net(alexnet(0.5f), {224, 224, 3}, num_classes); }

TEST(Alexnet, HasAsManyTensorsAsTheOriginal) {
  EXPECT_EQ(test::totals_of(plan()), (Totals{60'969'321, 26, 60'958'752, 2'762, 30}));
  EXPECT_EQ(test::totals_of(plan(1000)).parameters, 60'965'224);
}

// The original script sends tensors of at least 9217 elements, except the logits, as ternary codes.
TEST(Alexnet, HasTheLargeTensorsOfTheOriginal) {
  std::int64_t ternary = 0;
  std::int64_t logits = 0;
  const NetPlan net = plan();
  for (const Segment& segment : net.layout.segments()) {
    if (segment.is_logits) {
      logits += segment.num_elements;
    } else if (segment.num_elements >= 9217) {
      ternary += segment.num_elements;
    }
  }
  EXPECT_EQ(ternary, 56'858'656);
  EXPECT_EQ(logits, 4'101'097);
}

TEST(Alexnet, HasTheLayersOfTheOriginal) {
  const NetPlan net = plan();
  for (const std::string tower : {"_1", "_2"}) {
    const auto output = [&](const std::string& name) { return test::layer_of(net, name + tower).output; };
    EXPECT_EQ(output("conv1"), (ImageShape{56, 56, 48}));
    EXPECT_EQ(output("lrn1"), (ImageShape{56, 56, 48}));
    EXPECT_EQ(output("pool1"), (ImageShape{27, 27, 48}));
    EXPECT_EQ(output("conv2"), (ImageShape{27, 27, 128}));
    EXPECT_EQ(output("pool2"), (ImageShape{13, 13, 128}));
    EXPECT_EQ(output("conv3"), (ImageShape{13, 13, 192}));
    EXPECT_EQ(output("conv4"), (ImageShape{13, 13, 192}));
    EXPECT_EQ(output("conv5"), (ImageShape{13, 13, 128}));
    EXPECT_EQ(output("pool5"), (ImageShape{6, 6, 128}));
    const LayerPlan& first = test::layer_of(net, "conv1" + tower);
    EXPECT_EQ(first.inputs, std::vector<int>{kImageIndex});
    EXPECT_EQ(first.padding.top, 3);
    EXPECT_EQ(first.padding.bottom, 4);
    // Towers see their own channels only, except in conv3.
    EXPECT_EQ(test::layer_of(net, "conv2" + tower).input.channels, 48);
    EXPECT_EQ(test::layer_of(net, "conv3" + tower).input.channels, 256);
    EXPECT_EQ(test::layer_of(net, "conv4" + tower).input.channels, 192);
    const auto& lrn = std::get<LrnSpec>(test::layer_of(net, "lrn2" + tower).operation);
    EXPECT_EQ(lrn.radius, 2);
    EXPECT_EQ(lrn.k, 2.0f);
    EXPECT_EQ(lrn.alpha, 1e-4f);
    EXPECT_EQ(lrn.beta, 0.75f);
    const auto& norm = std::get<BatchNormSpec>(test::layer_of(net, "conv5" + tower + "_norm").operation);
    EXPECT_EQ(norm.decay, 0.9997f);
    EXPECT_EQ(norm.epsilon, 0.001f);
    EXPECT_EQ(norm.activation, Activation::kRelu);
    EXPECT_FALSE(norm.gamma.has_value());
  }
  EXPECT_EQ(test::layer_of(net, "fc6").input.num_elements(), 9216);
  EXPECT_EQ(test::layer_of(net, "fc7").output, (ImageShape{1, 1, 4096}));
  EXPECT_EQ(net.layers.back().output, (ImageShape{1, 1, 1001}));
}

TEST(Alexnet, StartsFromTheOriginalDistributions) {
  const NetPlan net = plan();
  constexpr auto kNormal = Initializer::Kind::kTruncatedNormal;
  constexpr auto kConstant = Initializer::Kind::kConstant;
  for (const char* name : {"conv1_1", "conv2_2", "conv3_1", "conv4_2", "conv5_1", "logits"}) {
    test::expect_initializer(net, std::string(name) + "/weights", kNormal, 0.01f);
  }
  for (const std::string name : {"fc6", "fc7"}) {
    test::expect_initializer(net, name + "/weights", kNormal, 0.005f);
    test::expect_initializer(net, name + "/biases", kConstant, 0.1f);
  }
  test::expect_initializer(net, "conv1_1_norm/beta", kConstant, 0);
  test::expect_initializer(net, "logits/biases", kConstant, 0);
}

TEST(Alexnet, KeepsAsManyAsItIsTold) {
  const NetPlan net = plan_net(alexnet(0.8f), {224, 224, 3}, 10);
  for (const char* name : {"dropout6", "dropout7"}) {
    EXPECT_EQ(std::get<DropoutSpec>(test::layer_of(net, name).operation).keep_prob, 0.8f);
  }
}

TEST(Alexnet, RefusesImagesThatLeaveAPoolEmpty) { test::expect_smallest_side(alexnet(0.5f), 57); }

}  // namespace
}  // namespace terngrad::alexnet_test
