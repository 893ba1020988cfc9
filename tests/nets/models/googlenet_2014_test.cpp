#include "nets/models/googlenet_2014.h"

#include <cmath>

#include "tests/nets/cpu/net_comparison.h"
#include "tests/nets/models/model_checks.h"

namespace terngrad::googlenet_2014_test {
namespace {

using test::Totals;

NetPlan plan(int num_classes = 1001) { return plan_net(googlenet_2014(0.6f), {224, 224, 3}, num_classes); }

TEST(Googlenet2014, HasAsManyTensorsAsCaffes) {
  EXPECT_EQ(test::totals_of(plan()), (Totals{13'381'355, 128, 13'368'768, 0, 0}));
  EXPECT_EQ(test::totals_of(plan(1000)).parameters, 13'378'280);
  EXPECT_EQ(test::totals_of_inference(plan()), std::pair(std::int64_t{6'999'577}, 116));
  EXPECT_EQ(test::totals_of_inference(plan(1000)).first, 6'998'552);
}

TEST(Googlenet2014, HasTheLayersOfCaffes) {
  const NetPlan net = plan();
  const std::pair<const char*, ImageShape> expected[] = {
      {"conv1", {112, 112, 64}},       {"pool1", {56, 56, 64}},
      {"lrn2", {56, 56, 192}},         {"pool2", {28, 28, 192}},
      {"mixed_3c", {28, 28, 480}},     {"mixed_4b_branch2_5x5", {14, 14, 48}},
      {"mixed_4f", {14, 14, 832}},     {"pool4", {7, 7, 832}},
      {"mixed_5c", {7, 7, 1024}},      {"auxiliary1_average", {4, 4, 512}},
      {"auxiliary1_1x1", {4, 4, 128}}, {"auxiliary2_average", {4, 4, 528}},
      {"auxiliary2_fc", {1, 1, 1024}}, {"auxiliary2_logits", {1, 1, 1001}}};
  for (const auto& [name, output] : expected) EXPECT_EQ(test::layer_of(net, name).output, output) << name;
  EXPECT_EQ(test::layer_of(net, "conv1").padding.top, 3);
  EXPECT_EQ(test::layer_of(net, "mixed_4b_branch2_5x5").padding.bottom, 2);
  const auto& lrn = std::get<LrnSpec>(test::layer_of(net, "lrn1").operation);
  EXPECT_EQ(lrn.radius, 2);
  EXPECT_EQ(lrn.k, 1.0f);
  EXPECT_FLOAT_EQ(lrn.alpha, 1e-4f / 5);
}

TEST(Googlenet2014, HasTwoAuxiliaryClassifiersThatAreNoLogits) {
  const NetPlan net = plan();
  ASSERT_EQ(net.auxiliary_losses.size(), 2u);
  for (const AuxiliaryLossPlan& loss : net.auxiliary_losses) {
    const LayerPlan& layer = net.layers[static_cast<std::size_t>(loss.layer)];
    EXPECT_EQ(loss.weight, 0.3f);
    EXPECT_TRUE(layer.is_training_only);
    EXPECT_FALSE(net.layout.segment(layer.weights).is_logits) << layer.name;
  }
  EXPECT_EQ(net.label_smoothing, 0);
  EXPECT_FALSE(test::layer_of(net, "mixed_4e").is_training_only);
}

TEST(Googlenet2014, DropsHalfAsMuchInTheClassifiersOrNothingAnywhere) {
  const auto keep_prob = [](const NetPlan& net, const char* name) {
    return std::get<DropoutSpec>(test::layer_of(net, name).operation).keep_prob;
  };
  EXPECT_EQ(keep_prob(plan(), "dropout"), 0.6f);
  EXPECT_FLOAT_EQ(keep_prob(plan(), "auxiliary1_dropout"), 0.3f);
  const NetPlan without = plan_net(googlenet_2014(1), {224, 224, 3}, 10);
  EXPECT_EQ(keep_prob(without, "dropout"), 1.0f);
  EXPECT_EQ(keep_prob(without, "auxiliary2_dropout"), 1.0f);
}

TEST(Googlenet2014, StartsFromTheDistributionsOfCaffes) {
  const NetPlan net = plan();
  test::expect_initializer(net, "conv1/weights", Initializer::Kind::kUniform, std::sqrt(3.0f / 147));
  test::expect_initializer(net, "auxiliary1_fc/weights", Initializer::Kind::kUniform, std::sqrt(3.0f / 2048));
  for (const char* name : {"conv2_3x3/biases", "auxiliary1_fc/biases"}) {
    test::expect_initializer(net, name, Initializer::Kind::kConstant, 0.2f);
  }
  for (const char* name : {"logits/biases", "auxiliary2_logits/biases"}) {
    test::expect_initializer(net, name, Initializer::Kind::kConstant, 0);
  }
}

TEST(Googlenet2014, BeginsAtTheLossesOfAGuess) {
  const WorkerLoss loss = test::loss_without_logits(googlenet_2014(0.6f), {65, 65, 3}, 10);
  EXPECT_NEAR(loss.entropy_loss, std::log(10), 1e-6);
  EXPECT_NEAR(loss.auxiliary_loss, 0.6 * std::log(10), 1e-6);
}

TEST(Googlenet2014, RefusesImagesThatLeaveAClassifierEmpty) { test::expect_smallest_side(googlenet_2014(0.6f), 65); }

TEST(Googlenet2014, AMixedBlockMatchesTheReference) {
  test::expect_net_matches_reference(test::block_net(googlenet_2014(1), "mixed_3b", 16), {7, 9, 4}, 5, 3);
}

}  // namespace
}  // namespace terngrad::googlenet_2014_test
