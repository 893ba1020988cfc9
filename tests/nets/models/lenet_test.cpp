#include "nets/models/lenet.h"

#include <gtest/gtest.h>

#include <string>
#include <utility>
#include <vector>

#include "nets/net_plan.h"

namespace terngrad::lenet_test {
namespace {

using Shape = std::vector<std::int64_t>;

TEST(Lenet, HasTheTensorsOfTheOriginal) {
  const NetPlan plan = plan_net(lenet(), {28, 28, 1}, 10);
  EXPECT_EQ(plan.layout.num_elements(), 1256080);
  const std::vector<std::pair<std::string, Shape>> expected = {
      {"conv1/weights", {5, 5, 1, 20}}, {"conv1/biases", {20}},       {"conv2/weights", {5, 5, 20, 50}},
      {"conv2/biases", {50}},           {"fc3/weights", {2450, 500}}, {"fc3/biases", {500}},
      {"logits/weights", {500, 10}},    {"logits/biases", {10}}};
  ASSERT_EQ(plan.layout.num_segments(), 8);
  for (int index = 0; index < 8; ++index) {
    const Segment& segment = plan.layout.segment(index);
    const auto& [name, shape] = expected[static_cast<std::size_t>(index)];
    EXPECT_EQ(segment.name, name);
    EXPECT_EQ(segment.shape, shape);
    EXPECT_EQ(segment.is_logits, index >= 6) << name;
    EXPECT_EQ(plan.tensors[static_cast<std::size_t>(index)].is_regularized, index % 2 == 0) << name;
  }
}

TEST(Lenet, StartsFromTheOriginalDistributions) {
  const NetPlan plan = plan_net(lenet(), {28, 28, 1}, 10);
  const float stddevs[] = {0.05f, 0.05f, 0.048f, 0.0767f};
  for (std::size_t layer = 0; layer < 4; ++layer) {
    EXPECT_EQ(plan.tensors[2 * layer].initializer.kind, Initializer::Kind::kTruncatedNormal);
    EXPECT_EQ(plan.tensors[2 * layer].initializer.value, stddevs[layer]);
    EXPECT_EQ(plan.tensors[2 * layer + 1].initializer.kind, Initializer::Kind::kConstant);
    EXPECT_EQ(plan.tensors[2 * layer + 1].initializer.value, 0.0f);
  }
}

TEST(Lenet, TakesAnyImage) {
  EXPECT_EQ(plan_net(lenet(), {1, 1, 1}, 10).layers[3].output, (ImageShape{1, 1, 50}));
  EXPECT_EQ(plan_net(lenet(), {29, 31, 3}, 5).layers[3].output, (ImageShape{8, 8, 50}));
}

}  // namespace
}  // namespace terngrad::lenet_test
