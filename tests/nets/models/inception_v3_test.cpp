#include "nets/models/inception_v3.h"

#include <cmath>

#include "tests/nets/cpu/net_comparison.h"
#include "tests/nets/models/model_checks.h"

namespace terngrad::inception_v3_test {
namespace {

using test::Totals;

NetPlan plan(int num_classes = 1001) { return plan_net(inception_v3(0.8f), {299, 299, 3}, num_classes); }

TEST(InceptionV3, HasAsManyTensorsAsTheOriginal) {
  EXPECT_EQ(test::totals_of(plan()), (Totals{27'145'970, 196, 27'125'856, 36'320, 288}));
  EXPECT_EQ(test::totals_of(plan(1000)).parameters, 27'143'152);
  EXPECT_EQ(test::totals_of_inference(plan()), std::pair(std::int64_t{23'819'401}, 190));
}

TEST(InceptionV3, HasTheBlocksOfTheOriginal) {
  const NetPlan net = plan();
  const std::pair<const char*, ImageShape> expected[] = {
      {"conv0", {149, 149, 32}},      {"conv1", {147, 147, 32}},        {"conv2", {147, 147, 64}},
      {"pool1", {73, 73, 64}},        {"conv3", {73, 73, 80}},          {"conv4", {71, 71, 192}},
      {"pool2", {35, 35, 192}},       {"mixed_35a", {35, 35, 256}},     {"mixed_35b", {35, 35, 288}},
      {"mixed_35c", {35, 35, 288}},   {"mixed_17a", {17, 17, 768}},     {"mixed_17b", {17, 17, 768}},
      {"mixed_17e", {17, 17, 768}},   {"mixed_8a", {8, 8, 1280}},       {"mixed_8b", {8, 8, 2048}},
      {"mixed_8c", {8, 8, 2048}},     {"average", {1, 1, 2048}},        {"auxiliary_average", {5, 5, 768}},
      {"auxiliary_1x1", {5, 5, 128}}, {"auxiliary_whole", {1, 1, 768}}, {"auxiliary_logits", {1, 1, 1001}}};
  for (const auto& [name, output] : expected) EXPECT_EQ(test::layer_of(net, name).output, output) << name;
  // 1 row by 7 columns, then 7 rows by 1 column.
  EXPECT_EQ(test::layer_of(net, "mixed_17b_branch1_1").window, WindowSize(1, 7));
  EXPECT_EQ(test::layer_of(net, "mixed_17b_branch1_2").window, WindowSize(7, 1));
  // On images of 224 the map is smaller, and so is the classifier's last convolution.
  const NetPlan small = plan_net(inception_v3(0.8f), {224, 224, 3}, 1001);
  EXPECT_EQ(test::layer_of(small, "auxiliary_whole").window, WindowSize(3, 3));
}

TEST(InceptionV3, SmoothsLabelsAndHasOneAuxiliaryClassifierThatIsNoLogits) {
  const NetPlan net = plan();
  EXPECT_EQ(net.label_smoothing, 0.1f);
  ASSERT_EQ(net.auxiliary_losses.size(), 1u);
  EXPECT_EQ(net.auxiliary_losses[0].weight, 0.4f);
  const LayerPlan& layer = net.layers[static_cast<std::size_t>(net.auxiliary_losses[0].layer)];
  EXPECT_EQ(layer.name, "auxiliary_logits");
  EXPECT_FALSE(net.layout.segment(layer.weights).is_logits);
  EXPECT_TRUE(net.layout.segments().back().is_logits);
}

TEST(InceptionV3, StartsFromTheOriginalDistributions) {
  const NetPlan net = plan();
  constexpr auto kNormal = Initializer::Kind::kTruncatedNormal;
  for (const char* name : {"conv0/weights", "mixed_17d_branch2_4/weights", "auxiliary_1x1/weights"}) {
    test::expect_initializer(net, name, kNormal, 0.1f);
  }
  test::expect_initializer(net, "auxiliary_whole/weights", kNormal, 0.01f);
  test::expect_initializer(net, "auxiliary_logits/weights", kNormal, 0.001f);
  test::expect_initializer(net, "logits/weights", kNormal, 0.01f);
  const auto& norm = std::get<BatchNormSpec>(test::layer_of(net, "mixed_8c_branch1_row_norm").operation);
  EXPECT_EQ(norm.decay, 0.9997f);
  EXPECT_EQ(norm.epsilon, 0.001f);
  EXPECT_FALSE(norm.gamma.has_value());
  EXPECT_EQ(std::get<DropoutSpec>(test::layer_of(net, "dropout").operation).keep_prob, 0.8f);
}

TEST(InceptionV3, BeginsAtTheLossesOfAGuess) {
  const WorkerLoss loss = test::loss_without_logits(inception_v3(0.8f), {107, 107, 3}, 10);
  EXPECT_NEAR(loss.entropy_loss, std::log(10), 1e-6);
  EXPECT_NEAR(loss.auxiliary_loss, 0.4 * std::log(10), 1e-6);
}

TEST(InceptionV3, RefusesImagesThatLeaveTheClassifierEmpty) { test::expect_smallest_side(inception_v3(0.8f), 107); }

/// Compares a block, reduced to one to seven channels per branch, with the reference.
void expect_block_matches_reference(const char* block, int channels_divisor) {
  test::expect_net_matches_reference(test::block_net(inception_v3(1), block, channels_divisor), {7, 9, 2}, 4, 2);
}

TEST(InceptionV3, ABlockOfTheFirstSizeMatchesTheReference) { expect_block_matches_reference("mixed_35a", 32); }
TEST(InceptionV3, TheBlockAfterThoseMatchesTheReference) { expect_block_matches_reference("mixed_17a", 64); }
TEST(InceptionV3, ABlockOfRowsAndColumnsMatchesTheReference) { expect_block_matches_reference("mixed_17b", 64); }
TEST(InceptionV3, TheBlockBeforeTheLastMatchesTheReference) { expect_block_matches_reference("mixed_8a", 64); }
TEST(InceptionV3, ABlockOfSplitBranchesMatchesTheReference) { expect_block_matches_reference("mixed_8b", 64); }

}  // namespace
}  // namespace terngrad::inception_v3_test
