#include "nets/models/resnet.h"

#include <cmath>

#include "tests/nets/cpu/net_comparison.h"
#include "tests/nets/models/model_checks.h"

namespace terngrad::resnet_test {
namespace {

using test::Totals;

constexpr ImageShape kImage{224, 224, 3};

TEST(Resnet, HasTheParametersOfThePaper) {
  EXPECT_EQ(test::totals_of(plan_net(resnet_18(), kImage, 1001)), (Totals{11'690'025, 62, 11'679'424, 9'620, 60}));
  EXPECT_EQ(test::totals_of(plan_net(resnet_18(), kImage, 1000)).parameters, 11'689'512);
  EXPECT_EQ(test::totals_of(plan_net(resnet_50(), kImage, 1001)), (Totals{25'559'081, 161, 25'504'960, 53'173, 159}));
  EXPECT_EQ(test::totals_of(plan_net(resnet_50(), kImage, 1000)).parameters, 25'557'032);
  EXPECT_EQ(test::totals_of(plan_net(resnet_18_cifar(), {32, 32, 3}, 10)),
            (Totals{11'173'962, 62, 11'164'352, 9'620, 60}));
}

TEST(Resnet, PadsTheStemOnAllSides) {
  for (const NetSpec& spec : {resnet_18(), resnet_50()}) {
    const NetPlan net = plan_net(spec, kImage, 1001);
    const LayerPlan& convolution = test::layer_of(net, "conv1");
    EXPECT_EQ(convolution.output, (ImageShape{112, 112, 64}));
    EXPECT_EQ(convolution.padding.top, 3);
    EXPECT_EQ(convolution.padding.bottom, 2);  // no window reaches a third row below
    const LayerPlan& pool = test::layer_of(net, "pool1");
    EXPECT_EQ(pool.output, (ImageShape{56, 56, 64}));
    EXPECT_EQ(pool.padding.left, 1);
    EXPECT_EQ(pool.padding.right, 0);
  }
}

TEST(Resnet, HalvesTheImageInTheFirst3x3OfAStage) {
  const NetPlan net = plan_net(resnet_50(), kImage, 1001);
  const auto output = [&](const char* name) { return test::layer_of(net, name).output; };
  EXPECT_EQ(output("stage1_unit1_conv1"), (ImageShape{56, 56, 64}));
  EXPECT_EQ(output("stage1_unit1_shortcut"), (ImageShape{56, 56, 256}));
  EXPECT_EQ(output("stage1_unit3_sum"), (ImageShape{56, 56, 256}));
  EXPECT_EQ(output("stage2_unit1_conv1"), (ImageShape{56, 56, 128}));
  EXPECT_EQ(output("stage2_unit1_conv2"), (ImageShape{28, 28, 128}));
  EXPECT_EQ(output("stage2_unit1_shortcut"), (ImageShape{28, 28, 512}));
  EXPECT_EQ(output("stage2_unit4_sum"), (ImageShape{28, 28, 512}));
  EXPECT_EQ(output("stage3_unit1_conv2"), (ImageShape{14, 14, 256}));
  EXPECT_EQ(output("stage3_unit6_sum"), (ImageShape{14, 14, 1024}));
  EXPECT_EQ(output("stage4_unit3_sum"), (ImageShape{7, 7, 2048}));
  EXPECT_EQ(output("average"), (ImageShape{1, 1, 2048}));
}

TEST(Resnet, OfTwoConvolutionsAUnitHalvesTheImageInTheFirst) {
  const NetPlan net = plan_net(resnet_18(), kImage, 1001);
  const auto output = [&](const char* name) { return test::layer_of(net, name).output; };
  EXPECT_EQ(output("stage1_unit2_sum"), (ImageShape{56, 56, 64}));
  EXPECT_EQ(output("stage2_unit1_conv1"), (ImageShape{28, 28, 128}));
  EXPECT_EQ(output("stage2_unit1_shortcut"), (ImageShape{28, 28, 128}));
  EXPECT_EQ(output("stage4_unit2_sum"), (ImageShape{7, 7, 512}));
  const NetPlan small = plan_net(resnet_18_cifar(), {32, 32, 3}, 10);
  EXPECT_EQ(test::layer_of(small, "conv1").output, (ImageShape{32, 32, 64}));
  EXPECT_EQ(test::layer_of(small, "stage1_unit2_sum").output, (ImageShape{32, 32, 64}));
  EXPECT_EQ(test::layer_of(small, "stage4_unit2_sum").output, (ImageShape{4, 4, 512}));
}

TEST(Resnet, StartsFromWeightsScaledForReluWithAGamma) {
  const NetPlan net = plan_net(resnet_50(), kImage, 1001);
  constexpr auto kNormal = Initializer::Kind::kTruncatedNormal;
  test::expect_initializer(net, "conv1/weights", kNormal, std::sqrt(1.3f * 2 / 147));
  test::expect_initializer(net, "stage1_unit1_shortcut/weights", kNormal, std::sqrt(1.3f * 2 / 64));
  test::expect_initializer(net, "logits/weights", kNormal, std::sqrt(1.3f * 2 / 2048));
  for (const char* name : {"norm1", "stage4_unit3_norm3", "stage2_unit1_shortcut_norm"}) {
    test::expect_initializer(net, std::string(name) + "/gamma", Initializer::Kind::kConstant, 1);
    const auto& norm = std::get<BatchNormSpec>(test::layer_of(net, name).operation);
    EXPECT_EQ(norm.decay, 0.997f);
    EXPECT_EQ(norm.epsilon, 1e-5f);
  }
  const NetPlan small = plan_net(resnet_18_cifar(), {32, 32, 3}, 10);
  EXPECT_EQ(std::get<BatchNormSpec>(test::layer_of(small, "norm1").operation).decay, 0.9f);
}

TEST(Resnet, TakesAnyImage) {
  EXPECT_EQ(test::layer_of(plan_net(resnet_50(), {1, 1, 1}, 10), "stage4_unit3_sum").output, (ImageShape{1, 1, 2048}));
  EXPECT_EQ(test::layer_of(plan_net(resnet_18(), {97, 65, 3}, 10), "stage4_unit2_sum").output, (ImageShape{4, 3, 512}));
}

TEST(Resnet, BeginsAtTheLossOfAGuess) {
  EXPECT_NEAR(test::loss_without_logits(resnet_18_cifar(), {7, 8, 3}, 10).entropy_loss, std::log(10), 1e-6);
}

TEST(Resnet, ABottleneckWithAProjectionMatchesTheReference) {
  test::expect_net_matches_reference(test::block_net(resnet_50(), "stage2_unit1", 32), {7, 9, 3}, 4, 3);
}

TEST(Resnet, ABottleneckWithoutAProjectionMatchesTheReference) {
  // The image replaces the unit's input and has its channels.
  test::expect_net_matches_reference(test::block_net(resnet_50(), "stage2_unit2", 32), {7, 9, 16}, 4, 3);
}

TEST(Resnet, AUnitOfTwoConvolutionsMatchesTheReference) {
  test::expect_net_matches_reference(test::block_net(resnet_18(), "stage2_unit1", 32), {7, 9, 3}, 4, 3);
}

}  // namespace
}  // namespace terngrad::resnet_test
