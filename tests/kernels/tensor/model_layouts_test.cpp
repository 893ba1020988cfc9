#include "kernels/tensor/model_layouts.h"

#include <gtest/gtest.h>

#include <map>
#include <string>

#include "kernels/runtime/errors.h"

namespace terngrad::model_layouts_test {
namespace {

// Counted by hand from the originals' sources; those of the ResNets and of VGG-16 are torchvision's and one class more.
TEST(ModelLayouts, HaveTheParametersOfTheModels) {
  const std::map<std::string, std::int64_t> expected = {
      {"lenet", 1'256'080},     {"cifar10_alexnet", 1'068'298}, {"alexnet", 60'969'321},
      {"vgg_a", 132'867'433},   {"alexnet_v2", 50'308'009},     {"cifarnet", 1'756'426},
      {"googlenet", 6'618'649}, {"resnet_18", 11'690'025},      {"resnet_18_cifar", 11'173'962},
      {"resnet_20", 269'722},   {"resnet_50", 25'559'081},      {"resnet_56", 853'018},
      {"vgg_16", 138'361'641},  {"googlenet_2014", 13'381'355}, {"inception_v3", 27'145'970}};
  EXPECT_EQ(model_names().size(), expected.size());
  for (const std::string& name : model_names()) {
    ASSERT_TRUE(expected.contains(name)) << name;
    EXPECT_EQ(model_layout(name).num_elements(), expected.at(name)) << name;
  }
}

TEST(ModelLayouts, EndWithTheLogits) {
  for (const std::string& name : model_names()) {
    const Layout layout = model_layout(name);
    EXPECT_EQ(layout.segments().back().name, "logits/biases") << name;
    EXPECT_TRUE(layout.segments().back().is_logits) << name;
    EXPECT_FALSE(layout.segments().front().is_logits) << name;
  }
}

TEST(ModelLayouts, AnUnknownNameIsRefused) { EXPECT_THROW(model_layout("resnet"), InvalidArgument); }

}  // namespace
}  // namespace terngrad::model_layouts_test
