#include "nets/net.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <map>
#include <string>

#include "kernels/runtime/buffer.h"
#include "kernels/runtime/errors.h"
#include "nets/net_plan.h"
#include "tests/nets/branched_net.h"

namespace terngrad::net_test {
namespace {

constexpr ImageShape kLargeImage{224, 224, 3};

TEST(MakeNet, KnowsTheNamesItLists) {
  EXPECT_THAT(net_names(), ::testing::IsSupersetOf({"alexnet", "googlenet", "lenet", "resnet_20", "vgg_a"}));
  for (const std::string& name : net_names()) {
    if (plan_net(net_spec(name), kLargeImage, 10).layout.num_elements() > 2'000'000) continue;  // tested elsewhere
    const auto net = make_net(name, {28, 28, 1}, 10, {});
    EXPECT_EQ(net->name(), name);
    EXPECT_EQ(net->num_classes(), 10);
    EXPECT_EQ(net->image_shape(), (ImageShape{28, 28, 1}));
  }
}

TEST(MakeNet, RefusesAnUnknownNameAndListsTheKnown) {
  try {
    make_net("lenet6", {28, 28, 1}, 10, {});
    FAIL() << "lenet6 was made";
  } catch (const InvalidArgument& error) {
    EXPECT_NE(std::string(error.what()).find("'lenet6'"), std::string::npos);
    EXPECT_NE(std::string(error.what()).find("lenet"), std::string::npos);
  }
}

TEST(MakeNet, TakesADescription) {
  const NetSpec spec{"mine", {{"logits", FullyConnectedSpec{.num_outputs = 0}}}};
  const auto net = make_net(spec, {3, 2, 1}, 4, {});
  EXPECT_EQ(net->name(), "mine");
  EXPECT_EQ(net->layout().num_elements(), 6 * 4 + 4);
  EXPECT_THROW(make_net(NetSpec{"none", {}}, {3, 2, 1}, 4, {}), InvalidArgument);
}

TEST(NetSpecByName, DescribesTheNetOfThatName) {
  for (const std::string& name : net_names()) EXPECT_EQ(net_spec(name).name, name);
  EXPECT_THROW(net_spec("lenet6"), InvalidArgument);
}

// Counted from the originals' sources; ResNets and VGG-16 as in torchvision, with one more class.
TEST(NetLayout, HasTheParametersOfTheModel) {
  const std::map<std::string, std::int64_t> expected = {{"lenet", 1'256'080},
                                                        {"cifar10_alexnet", 1'068'298},
                                                        {"alexnet", 60'969'321},
                                                        {"vgg_a", 132'867'433},
                                                        {"alexnet_v2", 50'308'009},
                                                        {"cifarnet", 1'756'426},
                                                        {"googlenet", 6'618'649},
                                                        {"resnet_18", 11'690'025},
                                                        {"resnet_18_cifar", 11'173'962},
                                                        {"resnet_20", 269'722},
                                                        {"resnet_50", 25'559'081},
                                                        {"resnet_56", 853'018},
                                                        {"vgg_16", 138'361'641},
                                                        {"googlenet_2014", 13'381'355},
                                                        {"inception_v3", 27'145'970},
                                                        {"torchvision_alexnet", 61'104'937},
                                                        {"torchvision_googlenet", 6'625'929},
                                                        {"torchvision_inception_v3", 27'164'082},
                                                        {"torchvision_vgg_16", 138'361'641}};
  EXPECT_EQ(net_names().size(), expected.size());
  for (const std::string& name : net_names()) {
    ASSERT_TRUE(expected.contains(name)) << name;
    EXPECT_EQ(net_layout(name).num_elements(), expected.at(name)) << name;
  }
  EXPECT_THROW(net_layout("resnet"), InvalidArgument);
}

TEST(Net, InitializesStateAndZeroesPadding) {
  const auto net = make_net(test::branched_net(0.5f), {9, 8, 4}, 7, {});
  const Layout& layout = net->state_layout();
  std::vector<float> state(static_cast<std::size_t>(layout.flat_elements()), -99.0f);
  net->initialize_state(state);
  std::vector<float> expected(state.size(), 0.0f);
  for (const Segment& segment : layout.segments()) {
    if (!segment.name.ends_with("/moving_variance")) continue;
    std::fill_n(expected.begin() + segment.offset, segment.num_elements, 1.0f);
  }
  EXPECT_EQ(state, expected);
  EXPECT_THROW(net->initialize_state({}), InvalidArgument);
  make_net("lenet", {28, 28, 1}, 10, {})->initialize_state({});
}

TEST(Net, InitializesEveryTensorAndZeroesPadding) {
  const auto net = make_net("lenet", {28, 28, 1}, 10, {});
  const Layout& layout = net->layout();
  Buffer<float> parameters(layout.flat_elements());
  std::fill_n(parameters.data(), parameters.num_elements(), -99.0f);
  net->initialize(5, parameters.span());
  for (int index = 0; index < layout.num_segments(); ++index) {
    const Segment& segment = layout.segment(index);
    EXPECT_EQ(net->is_regularized(index), segment.name.ends_with("/weights"));
    const float* values = parameters.data() + segment.offset;
    const auto num_zeros = std::count(values, values + segment.num_elements, 0.0f);
    EXPECT_EQ(num_zeros, net->is_regularized(index) ? 0 : segment.num_elements) << segment.name;
    const std::int64_t next =
        index + 1 < layout.num_segments() ? layout.segment(index + 1).offset : layout.flat_elements();
    for (std::int64_t i = segment.offset + segment.num_elements; i < next; ++i) EXPECT_EQ(parameters.data()[i], 0.0f);
  }
}

}  // namespace
}  // namespace terngrad::net_test
