#include "nets/models/resnet_cifar.h"

#include <gtest/gtest.h>

#include <cmath>
#include <string>

#include "tests/nets/cpu/net_comparison.h"
#include "tests/nets/models/model_checks.h"

namespace terngrad::resnet_cifar_test {
namespace {

using test::Totals;

TEST(ResnetCifar, HasTheParametersOfThePaper) {
  EXPECT_EQ(test::totals_of(plan_net(resnet_cifar("resnet_20", 3), {32, 32, 3}, 10)),
            (Totals{269'722, 59, 268'336, 1'395, 57}));
  EXPECT_EQ(test::totals_of(plan_net(resnet_cifar("resnet_56", 9), {32, 32, 3}, 10)),
            (Totals{853'018, 167, 848'944, 4'119, 165}));
}

TEST(ResnetCifar, HalvesTheImageWhereItDoublesTheChannels) {
  const NetPlan plan = plan_net(resnet_cifar("resnet_20", 3), {32, 32, 3}, 10);
  const auto output = [&](const std::string& name) { return test::layer_of(plan, name).output; };
  EXPECT_EQ(output("norm1"), (ImageShape{32, 32, 16}));
  EXPECT_EQ(output("stage1_unit3_sum"), (ImageShape{32, 32, 16}));
  EXPECT_EQ(output("stage2_unit1_conv1"), (ImageShape{16, 16, 32}));
  EXPECT_EQ(output("stage2_unit1_every_second"), (ImageShape{16, 16, 16}));
  EXPECT_EQ(output("stage2_unit3_sum"), (ImageShape{16, 16, 32}));
  EXPECT_EQ(output("stage3_unit3_sum"), (ImageShape{8, 8, 64}));
  EXPECT_EQ(output("average"), (ImageShape{1, 1, 64}));
  const LayerPlan& strided = test::layer_of(plan, "stage2_unit1_conv1");
  EXPECT_EQ(strided.padding.top, 1);
  EXPECT_EQ(strided.padding.bottom, 0);
  // He et al.'s standard deviation sqrt(2 / fan_in), before truncation at two deviations.
  EXPECT_FLOAT_EQ(plan.tensors[0].initializer.value, std::sqrt(1.3f * 2 / 27));
}

TEST(ResnetCifar, AUnitOfEachKindMatchesTheReference) {
  NetSpec net = resnet_cifar("resnet_8", 1);
  for (LayerSpec& layer : net.layers) {  // 2, 4 and 8 channels: the reference is slow
    if (auto* convolution = std::get_if<ConvolutionSpec>(&layer.operation)) convolution->num_outputs /= 8;
    if (auto* padded = std::get_if<PadChannelsSpec>(&layer.operation)) padded->num_outputs /= 8;
  }
  test::expect_net_matches_reference(net, {9, 7, 3}, 4, 3);
}

}  // namespace
}  // namespace terngrad::resnet_cifar_test
