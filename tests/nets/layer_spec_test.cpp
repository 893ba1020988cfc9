#include "nets/layer_spec.h"

#include <gtest/gtest.h>

#include "nets/models/lenet.h"

namespace terngrad::layer_spec_test {
namespace {

TEST(HasDropout, FindsADropoutLayerAnywhere) {
  EXPECT_FALSE(has_dropout(lenet()));
  EXPECT_FALSE(has_dropout({"empty", {}}));
  NetSpec spec = lenet();
  spec.layers.insert(spec.layers.begin() + 4, {"drop", DropoutSpec{.keep_prob = 1}});
  EXPECT_TRUE(has_dropout(spec));
}

}  // namespace
}  // namespace terngrad::layer_spec_test
