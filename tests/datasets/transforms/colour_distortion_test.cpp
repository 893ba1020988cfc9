#include "datasets/transforms/colour_distortion.h"

#include "datasets/transforms/cpu/hue_saturation.h"
#include "kernels/runtime/errors.h"
#include "kernels/tensor/crc32c.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <vector>

#include "tests/support/simd_targets.h"

namespace terngrad::colour_distortion_test {
namespace {

std::vector<float> some_image(std::size_t num_pixels) {
  const DrawKey key{.seed = 4, .step = 0, .worker = 0, .purpose = DrawPurpose::kSyntheticData};
  std::vector<float> pixels;
  for (std::size_t i = 0; i < 3 * num_pixels; ++i) pixels.push_back(draw_uniform(key, i));
  return pixels;
}

std::vector<float> distorted(std::vector<float> image, const ColourDistortion& distortion) {
  distort_colours(distortion, image);
  return image;
}

void expect_near(const std::vector<float>& found, const std::vector<float>& expected) {
  ASSERT_EQ(found.size(), expected.size());
  for (std::size_t i = 0; i < found.size(); ++i) ASSERT_NEAR(found[i], expected[i], 2e-6f) << i;
}

/// Distortion steps by definition.
std::vector<float> brightened(std::vector<float> image, float brightness) {
  for (float& value : image) value += brightness;
  return image;
}
std::vector<float> contrasted(std::vector<float> image, float contrast) {
  for (std::size_t c = 0; c < 3; ++c) {
    double sum = 0;
    for (std::size_t i = c; i < image.size(); i += 3) sum += static_cast<double>(image[i]);
    const auto mean = static_cast<float>(sum / static_cast<double>(image.size() / 3));
    for (std::size_t i = c; i < image.size(); i += 3) image[i] = (image[i] - mean) * contrast + mean;
  }
  return image;
}
std::vector<float> coloured(std::vector<float> image, float saturation, float hue) {
  cpu::adjust_hue_saturation(image, saturation, hue);
  return image;
}

TEST(ColourDistortion, TheDefaultChangesNothing) {
  for (const bool is_contrast_last : {false, true}) {
    expect_near(distorted(some_image(1000), {.is_contrast_last = is_contrast_last}), some_image(1000));
  }
}

TEST(ColourDistortion, StepsComeInTheirOrder) {
  for (const std::size_t num_pixels : {1u, 7u, 8u, 512u, 513u, 5000u}) {
    const std::vector<float> image = some_image(num_pixels);
    ColourDistortion distortion{.brightness = -0.1f, .saturation = 1.4f, .hue = 0.15f, .contrast = 0.6f};
    expect_near(distorted(image, distortion), contrasted(coloured(brightened(image, -0.1f), 1.4f, 0.15f), 0.6f));
    distortion.is_contrast_last = false;
    expect_near(distorted(image, distortion), coloured(contrasted(brightened(image, -0.1f), 0.6f), 1.4f, 0.15f));
  }
}

TEST(ColourDistortion, DrawsCoverTheirRanges) {
  constexpr int kDraws = 4000;
  int last = 0;
  std::vector<float> brightness, saturation, hue, contrast;
  for (int index = 0; index < kDraws; ++index) {
    const ColourDistortion drawn = draw_colour_distortion(ImageDraws({.seed = 1, .epoch = 2}, index));
    last += drawn.is_contrast_last ? 1 : 0;
    brightness.push_back(drawn.brightness);
    saturation.push_back(drawn.saturation);
    hue.push_back(drawn.hue);
    contrast.push_back(drawn.contrast);
  }
  EXPECT_NEAR(last, kDraws / 2, 150);
  const auto expect_uniform = [](std::vector<float> values, float min, float max) {
    std::sort(values.begin(), values.end());
    EXPECT_GE(values.front(), min);
    EXPECT_LE(values.back(), max);
    for (const float part : {0.01f, 0.25f, 0.5f, 0.75f, 0.99f}) {
      EXPECT_NEAR(values[static_cast<std::size_t>(part * kDraws)], min + part * (max - min), 0.03f * (max - min));
    }
  };
  expect_uniform(brightness, -32.0f / 255, 32.0f / 255);
  expect_uniform(saturation, 0.5f, 1.5f);
  expect_uniform(hue, -0.2f, 0.2f);
  expect_uniform(contrast, 0.5f, 1.5f);
}

TEST(ColourDistortion, BitsArePinnedOnEveryTarget) {
  testing::for_each_target([&](const std::string& target) {
    std::uint32_t crc = 0;
    for (const bool is_contrast_last : {false, true}) {
      const std::vector<float> image = distorted(some_image(3001), {.is_contrast_last = is_contrast_last,
                                                                    .brightness = 0.05f,
                                                                    .saturation = 1.2f,
                                                                    .hue = -0.07f,
                                                                    .contrast = 1.3f});
      crc ^= crc32c({reinterpret_cast<const std::uint8_t*>(image.data()), image.size() * sizeof(float)});
    }
    EXPECT_EQ(crc, 2636495377u) << target;
  });
}

TEST(ColourDistortion, RefusesWhatIsNoImage) {
  std::vector<float> none, part(4), pixel(3);
  EXPECT_THROW(distort_colours({}, none), InvalidArgument);
  EXPECT_THROW(distort_colours({}, part), InvalidArgument);
  EXPECT_THROW(distort_colours({.hue = 1.5f}, pixel), InvalidArgument);
  EXPECT_NO_THROW(distort_colours({.hue = 1}, pixel));
}

}  // namespace
}  // namespace terngrad::colour_distortion_test
