#include "nets/models/normalized_convolution.h"

#include "tests/nets/models/model_checks.h"

namespace terngrad::normalized_convolution_test {
namespace {

TEST(NormalizedConvolution, HasAnOffsetInPlaceOfBiasesAndTheReluBehindIt) {
  NetSpec spec{"net", {}};
  add_normalized_convolution(spec, "conv1", {.num_outputs = 4, .kernel = 3}, {.decay = 0.5f, .epsilon = 0.25f});
  add_normalized_convolution(spec, "conv2", {.num_outputs = 6, .kernel = 1, .stride = 2}, {});
  add_normalized_convolution(spec, "conv3", {.num_outputs = 5, .kernel = 1, .stride = 2}, {}, {"conv1_norm"});
  spec.layers.push_back({"joined", ConcatenationSpec{}, {"conv2_norm", "conv3_norm"}});
  spec.layers.push_back({"logits", FullyConnectedSpec{}});
  const NetPlan plan = plan_net(spec, {4, 6, 2}, 3);
  std::vector<std::string> tensors;
  for (const Segment& segment : plan.layout.segments()) tensors.push_back(segment.name);
  EXPECT_EQ(tensors, (std::vector<std::string>{"conv1/weights", "conv1_norm/beta", "conv2/weights", "conv2_norm/beta",
                                               "conv3/weights", "conv3_norm/beta", "logits/weights", "logits/biases"}));
  const auto& norm = std::get<BatchNormSpec>(test::layer_of(plan, "conv1_norm").operation);
  EXPECT_EQ(norm.decay, 0.5f);
  EXPECT_EQ(norm.epsilon, 0.25f);
  EXPECT_EQ(norm.activation, Activation::kRelu);
  EXPECT_FALSE(test::layer_of(plan, "conv1").applies_relu_gradient);
  // Inputs are the named layers, or the preceding batch norm.
  EXPECT_EQ(test::layer_of(plan, "conv1").inputs, std::vector<int>{kImageIndex});
  EXPECT_EQ(test::layer_of(plan, "conv2").inputs, std::vector<int>{1});
  EXPECT_EQ(test::layer_of(plan, "conv3").inputs, std::vector<int>{1});
  EXPECT_EQ(test::layer_of(plan, "conv3").output, (ImageShape{2, 3, 5}));
}

}  // namespace
}  // namespace terngrad::normalized_convolution_test
