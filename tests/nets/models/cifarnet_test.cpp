#include "nets/models/cifarnet.h"

#include <cmath>

#include "tests/nets/models/model_checks.h"

namespace terngrad::cifarnet_test {
namespace {

using test::Totals;

NetPlan plan() { return plan_net(cifarnet(0.5f), {32, 32, 3}, 10); }

TEST(Cifarnet, HasAsManyTensorsAsTheOriginal) {
  EXPECT_EQ(test::totals_of(plan()), (Totals{1'756'426, 10, 1'646'592, 0, 0}));
}

TEST(Cifarnet, HasTheLayersOfTheOriginal) {
  const NetPlan net = plan();
  const std::pair<const char*, ImageShape> expected[] = {
      {"conv1", {32, 32, 64}}, {"pool1", {16, 16, 64}}, {"lrn1", {16, 16, 64}}, {"conv2", {16, 16, 64}},
      {"lrn2", {16, 16, 64}},  {"pool2", {8, 8, 64}},   {"fc3", {1, 1, 384}},   {"dropout3", {1, 1, 384}},
      {"fc4", {1, 1, 192}},    {"logits", {1, 1, 10}}};
  ASSERT_EQ(net.layers.size(), std::size(expected));
  for (std::size_t l = 0; l < net.layers.size(); ++l) {
    EXPECT_EQ(net.layers[l].name, expected[l].first);
    EXPECT_EQ(net.layers[l].output, expected[l].second) << expected[l].first;
  }
  for (const char* name : {"lrn1", "lrn2"}) {
    const auto& lrn = std::get<LrnSpec>(test::layer_of(net, name).operation);
    EXPECT_EQ(lrn.radius, 4);
    EXPECT_EQ(lrn.k, 1.0f);
    EXPECT_FLOAT_EQ(lrn.alpha, 0.001f / 9);
    EXPECT_EQ(lrn.beta, 0.75f);
  }
}

TEST(Cifarnet, StartsFromTheOriginalDistributions) {
  const NetPlan net = plan();
  constexpr auto kNormal = Initializer::Kind::kTruncatedNormal;
  constexpr auto kConstant = Initializer::Kind::kConstant;
  for (const std::string name : {"conv1", "conv2"}) {
    test::expect_initializer(net, name + "/weights", kNormal, 0.05f);
    test::expect_initializer(net, name + "/biases", kConstant, 0);
  }
  for (const std::string name : {"fc3", "fc4"}) {
    test::expect_initializer(net, name + "/weights", kNormal, 0.04f);
    test::expect_initializer(net, name + "/biases", kConstant, 0.1f);
  }
  test::expect_initializer(net, "logits/weights", kNormal, 1.0f / 192);
  test::expect_initializer(net, "logits/biases", kConstant, 0);
}

TEST(Cifarnet, BeginsAtTheLossOfAGuess) {
  EXPECT_NEAR(test::loss_without_logits(cifarnet(0.5f), {9, 10, 3}, 10).entropy_loss, std::log(10), 1e-6);
}

TEST(Cifarnet, RefusesImagesThatLeaveAPoolEmpty) { test::expect_smallest_side(cifarnet(0.5f), 4); }

}  // namespace
}  // namespace terngrad::cifarnet_test
