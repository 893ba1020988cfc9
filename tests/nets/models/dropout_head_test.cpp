#include "nets/models/dropout_head.h"

#include "tests/nets/models/model_checks.h"

namespace terngrad::dropout_head_test {
namespace {

TEST(DropoutHead, FollowsTheLastLayer) {
  NetSpec spec{"net", {{"pool", MaxPoolSpec{.window = 2, .stride = 2}}}};
  add_dropout_head(spec, {.weights = Initializer::uniform(0.5f), .biases = Initializer::constant(0.25f)},
                   Initializer::truncated_normal(0.125f), 0.75f);
  const NetPlan plan = plan_net(spec, {4, 6, 3}, 10);
  std::vector<std::string> names;
  for (const LayerPlan& layer : plan.layers) names.push_back(layer.name);
  EXPECT_EQ(names, (std::vector<std::string>{"pool", "fc6", "dropout6", "fc7", "dropout7", "logits"}));
  EXPECT_EQ(test::totals_of(plan).parameters, 18 * 4096 + 4096 + 4096 * 4096 + 4096 + 4096 * 10 + 10);
  for (const std::string index : {"6", "7"}) {
    test::expect_initializer(plan, "fc" + index + "/weights", Initializer::Kind::kUniform, 0.5f);
    test::expect_initializer(plan, "fc" + index + "/biases", Initializer::Kind::kConstant, 0.25f);
    EXPECT_TRUE(test::layer_of(plan, "fc" + index).applies_relu_gradient);
    EXPECT_EQ(std::get<DropoutSpec>(test::layer_of(plan, "dropout" + index).operation).keep_prob, 0.75f);
  }
  test::expect_initializer(plan, "logits/weights", Initializer::Kind::kTruncatedNormal, 0.125f);
  test::expect_initializer(plan, "logits/biases", Initializer::Kind::kConstant, 0);
  EXPECT_FALSE(test::layer_of(plan, "logits").applies_relu_gradient);
  EXPECT_TRUE(plan.layout.segments().back().is_logits);
}

}  // namespace
}  // namespace terngrad::dropout_head_test
