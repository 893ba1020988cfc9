#include "kernels/tensor/model_layouts.h"

#include <gtest/gtest.h>

#include "kernels/runtime/errors.h"

namespace terngrad::model_layouts_test {
namespace {

std::int64_t num_parameters(const std::string& name) { return model_layout(name).num_elements(); }

// Counted by hand from the originals' sources: AlexNet with two groups, 1001 classes as in TensorFlow's ImageNet code.
TEST(ModelLayouts, HaveTheParametersOfTheModels) {
  EXPECT_EQ(num_parameters("lenet"), 1'256'080);
  EXPECT_EQ(num_parameters("cifar10_alexnet"), 1'068'298);
  EXPECT_EQ(num_parameters("alexnet"), 60'969'321);
  EXPECT_EQ(num_parameters("vgg_a"), 132'867'433);
}

TEST(ModelLayouts, EveryNameHasOne) {
  EXPECT_EQ(model_names().size(), 4u);
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
