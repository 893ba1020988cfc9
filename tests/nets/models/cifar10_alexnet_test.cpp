#include "nets/models/cifar10_alexnet.h"

#include <gtest/gtest.h>

#include <string>
#include <vector>

#include "nets/net_plan.h"

namespace terngrad::cifar10_alexnet_test {
namespace {

struct ExpectedTensor {
  std::string name;
  std::vector<std::int64_t> shape;
  Initializer::Kind kind;
  float value;
  bool is_regularized;
};

TEST(Cifar10Alexnet, HasTheTensorsOfTheOriginal) {
  const NetPlan plan = plan_net(cifar10_alexnet(), {24, 24, 3}, 10);
  EXPECT_EQ(plan.layout.num_elements(), 1068298);
  constexpr auto kNormal = Initializer::Kind::kTruncatedNormal;
  constexpr auto kConstant = Initializer::Kind::kConstant;
  const std::vector<ExpectedTensor> expected = {
      {"conv1/weights", {5, 5, 3, 64}, kNormal, 0.05f, false},   {"conv1/biases", {64}, kConstant, 0, false},
      {"conv2/weights", {5, 5, 64, 64}, kNormal, 0.05f, false},  {"conv2/biases", {64}, kConstant, 0.1f, false},
      {"fc3/weights", {2304, 384}, kNormal, 0.04f, true},        {"fc3/biases", {384}, kConstant, 0.1f, false},
      {"fc4/weights", {384, 192}, kNormal, 0.04f, true},         {"fc4/biases", {192}, kConstant, 0.1f, false},
      {"logits/weights", {192, 10}, kNormal, 1.0f / 192, false}, {"logits/biases", {10}, kConstant, 0, false},
  };
  ASSERT_EQ(plan.layout.num_segments(), 10);
  for (int index = 0; index < 10; ++index) {
    const Segment& segment = plan.layout.segment(index);
    const TensorPlan& tensor = plan.tensors[static_cast<std::size_t>(index)];
    const ExpectedTensor& original = expected[static_cast<std::size_t>(index)];
    EXPECT_EQ(segment.name, original.name);
    EXPECT_EQ(segment.shape, original.shape) << original.name;
    EXPECT_EQ(segment.is_logits, index >= 8) << original.name;
    EXPECT_EQ(tensor.initializer.kind, original.kind) << original.name;
    EXPECT_EQ(tensor.initializer.value, original.value) << original.name;
    EXPECT_EQ(tensor.is_regularized, original.is_regularized) << original.name;
  }
}

TEST(Cifar10Alexnet, HasTheLayersOfTheOriginal) {
  const NetPlan plan = plan_net(cifar10_alexnet(), {24, 24, 3}, 10);
  const std::vector<std::pair<std::string, ImageShape>> expected = {
      {"conv1", {24, 24, 64}}, {"pool1", {12, 12, 64}}, {"lrn1", {12, 12, 64}},
      {"conv2", {12, 12, 64}}, {"lrn2", {12, 12, 64}},  {"pool2", {6, 6, 64}},
      {"fc3", {1, 1, 384}},    {"fc4", {1, 1, 192}},    {"logits", {1, 1, 10}}};
  ASSERT_EQ(plan.layers.size(), expected.size());
  for (std::size_t l = 0; l < expected.size(); ++l) {
    EXPECT_EQ(plan.layers[l].name, expected[l].first);
    EXPECT_EQ(plan.layers[l].output, expected[l].second) << expected[l].first;
  }
  for (const std::size_t pool : {1u, 5u}) {
    EXPECT_EQ(plan.layers[pool].padding.top, 0);
    EXPECT_EQ(plan.layers[pool].padding.bottom, 1);
  }
  for (const std::size_t l : {2u, 4u}) {
    const auto& lrn = std::get<LrnSpec>(plan.layers[l].operation);
    EXPECT_EQ(lrn.radius, 4);
    EXPECT_EQ(lrn.k, 1.0f);
    EXPECT_FLOAT_EQ(lrn.alpha, 0.001f / 9);
    EXPECT_EQ(lrn.beta, 0.75f);
  }
}

TEST(Cifar10Alexnet, OnlyThePoolRightAfterAConvolutionTakesItsReluGradient) {
  const NetPlan plan = plan_net(cifar10_alexnet(), {24, 24, 3}, 10);
  // pool1 applies conv1's ReLU gradient; conv2 applies its own, because an LRN lies between it and pool2.
  const bool expected[] = {false, true, false, true, false, false, true, true, false};
  for (std::size_t l = 0; l < 9; ++l) EXPECT_EQ(plan.layers[l].applies_relu_gradient, expected[l]) << l;
}

TEST(Cifar10Alexnet, TakesAnyImage) {
  EXPECT_EQ(plan_net(cifar10_alexnet(), {1, 1, 1}, 10).layers[5].output, (ImageShape{1, 1, 64}));
  EXPECT_EQ(plan_net(cifar10_alexnet(), {29, 31, 3}, 5).layers[5].output, (ImageShape{8, 8, 64}));
}

}  // namespace
}  // namespace terngrad::cifar10_alexnet_test
