#include "nets/models/googlenet.h"

#include <cmath>
#include <utility>

#include "tests/nets/cpu/net_comparison.h"
#include "tests/nets/models/model_checks.h"

namespace terngrad::googlenet_test {
namespace {

using test::Totals;

NetPlan plan(int num_classes = 1001) { return plan_net(googlenet(0.8f), {224, 224, 3}, num_classes); }

TEST(Googlenet, HasAsManyTensorsAsTheOriginal) {
  EXPECT_EQ(test::totals_of(plan()), (Totals{6'618'649, 116, 6'610'368, 14'617, 171}));
  EXPECT_EQ(test::totals_of(plan(1000)).parameters, 6'617'624);
}

TEST(Googlenet, HasTheBlocksOfTheOriginal) {
  const NetPlan net = plan();
  const std::vector<std::pair<const char*, ImageShape>> expected = {
      {"conv1", {112, 112, 64}},    {"pool1", {56, 56, 64}},     {"conv2_1x1", {56, 56, 64}},
      {"conv2_3x3", {56, 56, 192}}, {"pool2", {28, 28, 192}},    {"mixed_3b", {28, 28, 256}},
      {"mixed_3c", {28, 28, 480}},  {"pool3", {14, 14, 480}},    {"mixed_4b", {14, 14, 512}},
      {"mixed_4c", {14, 14, 512}},  {"mixed_4d", {14, 14, 512}}, {"mixed_4e", {14, 14, 528}},
      {"mixed_4f", {14, 14, 832}},  {"pool4", {7, 7, 832}},      {"mixed_5b", {7, 7, 832}},
      {"mixed_5c", {7, 7, 1024}},   {"average", {1, 1, 1024}},   {"logits", {1, 1, 1001}}};
  for (const auto& [name, output] : expected) EXPECT_EQ(test::layer_of(net, name).output, output) << name;
  EXPECT_EQ(test::layer_of(net, "conv1").padding.top, 2);
  EXPECT_EQ(test::layer_of(net, "conv1").padding.bottom, 3);
}

TEST(Googlenet, StartsFromTheOriginalDistributions) {
  const NetPlan net = plan();
  for (const char* name : {"conv1/weights", "conv2_3x3/weights", "mixed_4c_branch2_3x3/weights"}) {
    test::expect_initializer(net, name, Initializer::Kind::kTruncatedNormal, 0.01f);
  }
  test::expect_initializer(net, "logits/weights", Initializer::Kind::kTruncatedNormal, std::sqrt(1.3f * 2 / 1024));
  test::expect_initializer(net, "logits/biases", Initializer::Kind::kConstant, 0);
  const auto& norm = std::get<BatchNormSpec>(test::layer_of(net, "mixed_5c_branch3_1x1_norm").operation);
  EXPECT_EQ(norm.decay, 0.9997f);
  EXPECT_EQ(norm.epsilon, 0.001f);
  EXPECT_EQ(norm.activation, Activation::kRelu);
  EXPECT_FALSE(norm.gamma.has_value());
  EXPECT_EQ(std::get<DropoutSpec>(test::layer_of(net, "dropout").operation).keep_prob, 0.8f);
}

TEST(Googlenet, TakesAnyImage) {
  EXPECT_EQ(test::layer_of(plan_net(googlenet(1), {1, 1, 1}, 10), "mixed_5c").output, (ImageShape{1, 1, 1024}));
  EXPECT_EQ(test::layer_of(plan_net(googlenet(1), {97, 65, 3}, 10), "mixed_5c").output, (ImageShape{4, 3, 1024}));
}

TEST(Googlenet, BeginsAtTheLossOfAGuess) {
  EXPECT_NEAR(test::loss_without_logits(googlenet(0.8f), {16, 17, 3}, 1001).entropy_loss, std::log(1001), 1e-6);
}

TEST(Googlenet, AMixedBlockMatchesTheReference) {
  test::expect_net_matches_reference(test::block_net(googlenet(1), "mixed_3b", 16), {7, 9, 4}, 5, 3);
}

}  // namespace
}  // namespace terngrad::googlenet_test
