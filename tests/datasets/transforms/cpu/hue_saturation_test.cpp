#include "datasets/transforms/cpu/hue_saturation.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <vector>

#include "kernels/random/philox.h"
#include "tests/support/simd_targets.h"

namespace terngrad::hue_saturation_test {
namespace {

/// Pixels in [0, 1), including greys, black and primary colours.
std::vector<float> some_pixels(std::size_t num_pixels) {
  const DrawKey key{.seed = 3, .step = 0, .worker = 0, .purpose = DrawPurpose::kSyntheticData};
  std::vector<float> pixels;
  for (std::size_t i = 0; i < 3 * num_pixels; ++i) pixels.push_back(draw_uniform(key, i));
  const std::vector<float> special = {0, 0, 0, 1, 1, 1, 0.5f, 0.5f, 0.5f, 1, 0, 0, 0, 1, 0, 0, 0, 1, 1, 1, 0, 0, 1, 1};
  std::copy_n(special.begin(), std::min(special.size(), pixels.size()), pixels.begin());
  return pixels;
}

std::vector<float> adjusted(std::vector<float> pixels, float saturation, float hue) {
  cpu::adjust_hue_saturation(pixels, saturation, hue);
  return pixels;
}

void expect_near(const std::vector<float>& found, const std::vector<float>& expected, float tolerance = 1e-6f) {
  ASSERT_EQ(found.size(), expected.size());
  for (std::size_t i = 0; i < found.size(); ++i) ASSERT_NEAR(found[i], expected[i], tolerance) << i;
}

TEST(HueSaturation, OneAndZeroChangeNothing) {
  const std::vector<float> pixels = some_pixels(1001);
  expect_near(adjusted(pixels, 1, 0), pixels);
  expect_near(adjusted(pixels, 1, 1), pixels, 2e-6f);  // a full turn
}

TEST(HueSaturation, AThirdOfATurnPermutesTheChannels) {
  const std::vector<float> pixels = some_pixels(1001);
  std::vector<float> forward, backward;
  for (std::size_t i = 0; i < pixels.size(); i += 3) {
    forward.insert(forward.end(), {pixels[i + 2], pixels[i], pixels[i + 1]});
    backward.insert(backward.end(), {pixels[i + 1], pixels[i + 2], pixels[i]});
  }
  expect_near(adjusted(pixels, 1, 1.0f / 3), forward, 2e-6f);
  expect_near(adjusted(pixels, 1, -1.0f / 3), backward, 2e-6f);
}

TEST(HueSaturation, NoSaturationGivesTheLargestChannel) {
  const std::vector<float> pixels = some_pixels(1001);
  std::vector<float> grey;
  for (std::size_t i = 0; i < pixels.size(); i += 3)
    grey.insert(grey.end(), 3, std::max({pixels[i], pixels[i + 1], pixels[i + 2]}));
  EXPECT_EQ(adjusted(pixels, 0, 0.1f), grey);
}

TEST(HueSaturation, KnownColours) {
  expect_near(adjusted({0.5f, 0.25f, 0.25f}, 1.5f, 0), {0.5f, 0.125f, 0.125f});
  expect_near(adjusted({0.5f, 0.25f, 0.25f}, 3, 0), {0.5f, 0, 0});  // clamped
  expect_near(adjusted({0.5f, 0.25f, 0.25f}, 0.5f, 0), {0.5f, 0.375f, 0.375f});
  expect_near(adjusted({1, 0, 0}, 1, 1.0f / 6), {1, 1, 0});
  expect_near(adjusted({1, 0, 0}, 1, -1.0f / 6), {1, 0, 1});
  expect_near(adjusted({1, 0, 0}, 1, 0.5f), {0, 1, 1});
  // Negative values: no saturation if no value is positive, else clamped.
  expect_near(adjusted({-0.1f, -0.2f, -0.3f}, 1, 0), {-0.1f, -0.1f, -0.1f});
  expect_near(adjusted({0.4f, -0.1f, -0.1f}, 1, 0), {0.4f, 0, 0});
}

TEST(HueSaturation, EveryTargetGivesTheSameBits) {
  for (const std::size_t num_pixels : {1u, 3u, 16u, 37u, 200u}) {
    for (const float hue : {-0.2f, 0.0f, 0.17f}) {
      const std::vector<float> pixels = some_pixels(num_pixels);
      const std::vector<float> expected = adjusted(pixels, 1.3f, hue);
      testing::for_each_target([&](const std::string& target) {
        EXPECT_EQ(adjusted(pixels, 1.3f, hue), expected) << target << ", " << num_pixels;
      });
    }
  }
}

}  // namespace
}  // namespace terngrad::hue_saturation_test
