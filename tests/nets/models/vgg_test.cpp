#include "nets/models/vgg.h"

#include <cmath>

#include "tests/nets/models/model_checks.h"

namespace terngrad::vgg_test {
namespace {

using test::Totals;

NetPlan plan(const char* name, int num_classes = 1001) { return plan_net(net_spec(name), {224, 224, 3}, num_classes); }

TEST(Vgg, HasAsManyTensorsAsTheOriginal) {
  EXPECT_EQ(test::totals_of(plan("vgg_a")), (Totals{132'867'433, 22, 132'855'488, 5'512, 24}));
  EXPECT_EQ(test::totals_of(plan("vgg_a", 1000)).parameters, 132'863'336);
  EXPECT_EQ(test::totals_of(plan("vgg_16")), (Totals{138'361'641, 32, 138'348'224, 8'461, 39}));
  EXPECT_EQ(test::totals_of(plan("vgg_16", 1000)).parameters, 138'357'544);
}

TEST(Vgg, HalvesTheImageAfterEachBlock) {
  for (const char* name : {"vgg_a", "vgg_16"}) {
    const NetPlan net = plan(name);
    const auto output = [&](const char* layer) { return test::layer_of(net, layer).output; };
    EXPECT_EQ(output("conv1_1"), (ImageShape{224, 224, 64}));
    EXPECT_EQ(output("pool1"), (ImageShape{112, 112, 64}));
    EXPECT_EQ(output("pool2"), (ImageShape{56, 56, 128}));
    EXPECT_EQ(output("conv3_2"), (ImageShape{56, 56, 256}));
    EXPECT_EQ(output("pool3"), (ImageShape{28, 28, 256}));
    EXPECT_EQ(output("pool4"), (ImageShape{14, 14, 512}));
    EXPECT_EQ(output("conv5_2"), (ImageShape{14, 14, 512}));
    EXPECT_EQ(output("pool5"), (ImageShape{7, 7, 512}));
    EXPECT_EQ(test::layer_of(net, "fc6").input.num_elements(), 25088);
    EXPECT_EQ(output("fc7"), (ImageShape{1, 1, 4096}));
  }
}

TEST(Vgg, StartsFromTheOriginalDistributions) {
  const NetPlan net = plan("vgg_a");
  test::expect_initializer(net, "conv2_1/weights", Initializer::Kind::kUniform, std::sqrt(6.0f / (9 * (64 + 128))));
  test::expect_initializer(net, "fc7/weights", Initializer::Kind::kUniform, std::sqrt(6.0f / (4096 + 4096)));
  test::expect_initializer(net, "logits/weights", Initializer::Kind::kUniform, std::sqrt(6.0f / (4096 + 1001)));
  for (const char* name : {"fc6/biases", "fc7/biases", "logits/biases"}) {
    test::expect_initializer(net, name, Initializer::Kind::kConstant, 0);
  }
  const auto& norm = std::get<BatchNormSpec>(test::layer_of(net, "conv5_2_norm").operation);
  EXPECT_EQ(norm.decay, 0.999f);
  EXPECT_EQ(norm.epsilon, 0.001f);
  EXPECT_EQ(norm.activation, Activation::kRelu);
  EXPECT_FALSE(norm.gamma.has_value());
}

TEST(Vgg, RefusesImagesThatLeaveAPoolEmpty) {
  test::expect_smallest_side(net_spec("vgg_a"), 32);
  test::expect_smallest_side(net_spec("vgg_16"), 32);
}

}  // namespace
}  // namespace terngrad::vgg_test
