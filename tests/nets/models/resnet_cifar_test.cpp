#include "nets/models/resnet_cifar.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <string>

#include "nets/net_plan.h"
#include "tests/nets/cpu/net_comparison.h"

namespace terngrad::resnet_cifar_test {
namespace {

std::int64_t regularized_elements(const NetPlan& plan) {
  std::int64_t count = 0;
  for (int index = 0; index < plan.layout.num_segments(); ++index) {
    if (plan.tensors[static_cast<std::size_t>(index)].is_regularized) count += plan.layout.segment(index).num_elements;
  }
  return count;
}

TEST(ResnetCifar, HasTheParametersOfThePaper) {
  const NetPlan small = plan_net(resnet_cifar("resnet_20", 3), {32, 32, 3}, 10);
  EXPECT_EQ(small.layout.num_elements(), 269722);
  EXPECT_EQ(small.layout.num_segments(), 59);
  EXPECT_EQ(regularized_elements(small), 268336);
  EXPECT_EQ(small.state_layout.num_elements(), 1395);
  EXPECT_EQ(small.state_layout.num_segments(), 57);
  const NetPlan large = plan_net(resnet_cifar("resnet_56", 9), {32, 32, 3}, 10);
  EXPECT_EQ(large.layout.num_elements(), 853018);
  EXPECT_EQ(large.layout.num_segments(), 167);
  EXPECT_EQ(regularized_elements(large), 848944);
  EXPECT_EQ(large.state_layout.num_elements(), 4119);
  EXPECT_EQ(large.state_layout.num_segments(), 165);
}

TEST(ResnetCifar, HalvesTheImageWhereItDoublesTheChannels) {
  const NetPlan plan = plan_net(resnet_cifar("resnet_20", 3), {32, 32, 3}, 10);
  const auto output = [&](const std::string& name) {
    return std::ranges::find(plan.layers, name, &LayerPlan::name)->output;
  };
  EXPECT_EQ(output("norm1"), (ImageShape{32, 32, 16}));
  EXPECT_EQ(output("stage1_unit3_sum"), (ImageShape{32, 32, 16}));
  EXPECT_EQ(output("stage2_unit1_conv1"), (ImageShape{16, 16, 32}));
  EXPECT_EQ(output("stage2_unit1_every_second"), (ImageShape{16, 16, 16}));
  EXPECT_EQ(output("stage2_unit3_sum"), (ImageShape{16, 16, 32}));
  EXPECT_EQ(output("stage3_unit3_sum"), (ImageShape{8, 8, 64}));
  EXPECT_EQ(output("average"), (ImageShape{1, 1, 64}));
  const LayerPlan& strided = *std::ranges::find(plan.layers, "stage2_unit1_conv1", &LayerPlan::name);
  EXPECT_EQ(strided.padding.top, 1);
  EXPECT_EQ(strided.padding.bottom, 0);
  // He et al.'s deviation sqrt(2 / fan_in), before values beyond two of them are taken away.
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
