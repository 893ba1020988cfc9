#include "tests/nets/cpu/layer_comparison.h"

namespace terngrad::test::cpu_average_pool_test {
namespace {

constexpr double kTolerance = 1e-6;  // float sums of up to 49 values

LayerSpec average_pool(int window, int stride, Padding padding) {
  return {"pool", AveragePoolSpec{.window = window, .stride = stride, .padding = padding}};
}

TEST(AveragePool, MatchesReferenceForAwkwardNumbersOfChannels) {
  for (const int channels : {1, 3, 5, 16, 20, 33, 64, 65}) {
    SCOPED_TRACE(channels);
    expect_layer_matches_reference(
        plan_of_layer(average_pool(2, 2, Padding::kSame), {4, 6, channels}, 2 * 3 * channels), 2, kTolerance);
  }
}

TEST(AveragePool, DoesNotCountPadding) {
  const NetPlan plan = plan_of_layer(average_pool(3, 2, Padding::kSame), {8, 8, 5}, 4 * 4 * 5);
  ASSERT_EQ(plan.layers[0].padding.top, 0);
  ASSERT_EQ(plan.layers[0].padding.bottom, 1);
  expect_layer_matches_reference(plan, 2, kTolerance);
  expect_layer_matches_reference(plan_of_layer(average_pool(3, 1, Padding::kSame), {5, 4, 5}, 5 * 4 * 5), 2,
                                 kTolerance);
  // Windows larger than the image average over all its pixels.
  expect_layer_matches_reference(plan_of_layer(average_pool(7, 1, Padding::kSame), {4, 3, 6}, 4 * 3 * 6), 2,
                                 kTolerance);
}

TEST(AveragePool, CountsPaddingIfAsked) {
  LayerSpec pool = average_pool(3, 1, Padding::kSame);
  std::get<AveragePoolSpec>(pool.operation).counts_padding = true;
  const NetPlan plan = plan_of_layer(pool, {5, 4, 5}, 5 * 4 * 5);
  expect_layer_matches_reference(plan, 2, kTolerance);
  const std::vector<float> ones(5 * 4 * 5, 1.0f);
  EXPECT_NEAR(reference_forward(plan.layers[0], plan.layout, {}, widen(ones))[0], 4.0 / 9, 1e-12);
}

TEST(AveragePool, MatchesReferenceWithoutPadding) {
  expect_layer_matches_reference(plan_of_layer(average_pool(7, 1, Padding::kValid), {7, 7, 40}, 40), 3, kTolerance);
  // Rows outside of all windows get a zero gradient.
  expect_layer_matches_reference(plan_of_layer(average_pool(2, 3, Padding::kValid), {8, 8, 3}, 3 * 3 * 3), 2,
                                 kTolerance);
  expect_layer_matches_reference(plan_of_layer(average_pool(2, 2, Padding::kValid), {5, 5, 3}, 2 * 2 * 3), 2,
                                 kTolerance);
}

TEST(AveragePool, MatchesReferenceOverTheWholeImage) {
  for (const ImageShape& image : {ImageShape{7, 7, 40}, ImageShape{3, 8, 5}, ImageShape{1, 1, 6}}) {
    const NetPlan plan = plan_of_layer({"pool", AveragePoolSpec{}}, image, image.channels);
    EXPECT_EQ(plan.layers[0].output, (ImageShape{1, 1, image.channels}));
    expect_layer_matches_reference(plan, 3, kTolerance);
  }
}

TEST(AveragePool, MatchesReferenceOnOnePixelAndWithHoles) {
  expect_layer_matches_reference(plan_of_layer(average_pool(2, 2, Padding::kSame), {1, 1, 3}, 3), 1, kTolerance);
  expect_layer_matches_reference(plan_of_layer(average_pool(1, 3, Padding::kSame), {7, 6, 3}, 3 * 2 * 3), 2,
                                 kTolerance);
}

TEST(AveragePool, ReferenceAgreesWithCentralDifferences) {
  expect_reference_agrees_with_central_differences(
      plan_of_layer(average_pool(3, 2, Padding::kSame), {6, 5, 2}, 3 * 3 * 2));
}

}  // namespace
}  // namespace terngrad::test::cpu_average_pool_test
