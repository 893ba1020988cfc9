#include "tests/nets/cpu/layer_comparison.h"

namespace terngrad::test::cpu_fully_connected_test {
namespace {

constexpr double kTolerance = 2e-6;

LayerSpec fully_connected(int num_outputs, Activation activation) {
  return {"fc", FullyConnectedSpec{.num_outputs = num_outputs, .activation = activation}};
}

TEST(FullyConnected, MatchesReferenceForEveryNumberOfExamples) {
  // Both implementations of the input gradient: matmul for few examples, inner product for many.
  for (const int num_examples : {1, 2, 8, 24, 25, 40}) {
    SCOPED_TRACE(num_examples);
    expect_layer_matches_reference(plan_of_layer(fully_connected(13, Activation::kNone), {1, 1, 37}, 13), num_examples,
                                   kTolerance);
  }
}

TEST(FullyConnected, MatchesReferenceWithRelu) {
  expect_layer_matches_reference(plan_of_layer(fully_connected(50, Activation::kRelu), {1, 1, 20}, 50), 5, kTolerance);
}

TEST(FullyConnected, FlattensInTheOrderHeightWidthChannel) {
  const NetPlan plan = plan_of_layer(fully_connected(4, Activation::kNone), {3, 5, 7}, 4);
  EXPECT_EQ(plan.layout.segment(0).shape, (std::vector<std::int64_t>{105, 4}));
  expect_layer_matches_reference(plan, 3, kTolerance);
}

TEST(FullyConnected, MatchesReferenceWithOneInputAndOneOutput) {
  expect_layer_matches_reference(plan_of_layer(fully_connected(1, Activation::kNone), {1, 1, 1}, 1), 1, kTolerance);
}

}  // namespace
}  // namespace terngrad::test::cpu_fully_connected_test
