#include "nets/models/alexnet_v2.h"

#include <cmath>

#include "tests/nets/models/model_checks.h"

namespace terngrad::alexnet_v2_test {
namespace {

using test::Totals;

NetPlan plan(int num_classes = 1001) { return plan_net(alexnet_v2(0.5f), {224, 224, 3}, num_classes); }

TEST(AlexnetV2, HasAsManyTensorsAsTheOriginal) {
  EXPECT_EQ(test::totals_of(plan()), (Totals{50'308'009, 16, 50'297'536, 0, 0}));
  EXPECT_EQ(test::totals_of(plan(1000)).parameters, 50'303'912);
}

TEST(AlexnetV2, HasTheLayersOfTheOriginal) {
  const NetPlan net = plan();
  const auto output = [&](const char* name) { return test::layer_of(net, name).output; };
  EXPECT_EQ(output("conv1"), (ImageShape{54, 54, 64}));
  EXPECT_EQ(output("pool1"), (ImageShape{26, 26, 64}));
  EXPECT_EQ(output("conv2"), (ImageShape{26, 26, 192}));
  EXPECT_EQ(output("pool2"), (ImageShape{12, 12, 192}));
  EXPECT_EQ(output("conv3"), (ImageShape{12, 12, 384}));
  EXPECT_EQ(output("conv4"), (ImageShape{12, 12, 384}));
  EXPECT_EQ(output("conv5"), (ImageShape{12, 12, 256}));
  EXPECT_EQ(output("pool5"), (ImageShape{5, 5, 256}));
  EXPECT_EQ(output("fc6"), (ImageShape{1, 1, 4096}));
  EXPECT_EQ(output("fc7"), (ImageShape{1, 1, 4096}));
}

TEST(AlexnetV2, StartsFromTheOriginalDistributions) {
  const NetPlan net = plan();
  test::expect_initializer(net, "conv2/weights", Initializer::Kind::kUniform, std::sqrt(6.0f / (25 * (64 + 192))));
  test::expect_initializer(net, "conv2/biases", Initializer::Kind::kConstant, 0.1f);
  for (const std::string name : {"fc6", "fc7", "logits"}) {
    test::expect_initializer(net, name + "/weights", Initializer::Kind::kTruncatedNormal, 0.005f);
    test::expect_initializer(net, name + "/biases", Initializer::Kind::kConstant, name == "logits" ? 0 : 0.1f);
  }
}

TEST(AlexnetV2, RefusesImagesThatLeaveAPoolEmpty) { test::expect_smallest_side(alexnet_v2(0.5f), 67); }

}  // namespace
}  // namespace terngrad::alexnet_v2_test
