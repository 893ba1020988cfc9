#include "datasets/sets/grey_images.h"

#include "kernels/runtime/errors.h"

#include <gtest/gtest.h>

#include <vector>

namespace terngrad::grey_images_test {
namespace {

/// One image of `height` x `width` pixels 1, 2, 3, ...
GreyPixels counting_image(int height, int width) {
  GreyPixels grey{.height = height, .width = width, .pixels = {}, .labels = {4}};
  for (int i = 0; i < height * width; ++i) grey.pixels.push_back(static_cast<std::uint8_t>(i + 1));
  return grey;
}

/// Pixel values reconstructed from the output of read().
std::vector<int> read_pixels(const GreyImages& set) {
  std::vector<float> image(static_cast<std::size_t>(set.image_elements()));
  set.read(0, {}, image);
  std::vector<int> pixels;
  for (const float value : image) pixels.push_back(static_cast<int>((value * 0.5f + 0.5f) * 255.0f + 0.5f));
  return pixels;
}

TEST(GreyImages, PixelsBecomeMinusOneToOne) {
  const GreyImages set("set", {.height = 1, .width = 3, .pixels = {0, 51, 255}, .labels = {4}}, 10, 0);
  std::vector<float> image(3);
  set.read(0, {}, image);
  EXPECT_EQ(image[0], -1.0f);
  EXPECT_EQ(image[1], (51.0f / 255.0f - 0.5f) * 2.0f);
  EXPECT_NEAR(image[1], -0.6f, 1e-6f);
  EXPECT_EQ(image[2], 1.0f);
  EXPECT_EQ(set.label(0), 4);
  EXPECT_FALSE(set.is_augmented());
  EXPECT_FALSE(set.crop_source().has_value());
}

TEST(GreyImages, CropsTheCentre) {
  EXPECT_EQ(read_pixels(GreyImages("set", counting_image(4, 4), 10, 2)), (std::vector{6, 7, 10, 11}));
  // The odd row and column are cut at the bottom and right.
  EXPECT_EQ(read_pixels(GreyImages("set", counting_image(3, 3), 10, 2)), (std::vector{1, 2, 4, 5}));
}

TEST(GreyImages, PadsWithZeroPixels) {
  EXPECT_EQ(read_pixels(GreyImages("set", counting_image(2, 2), 10, 4)),
            (std::vector{0, 0, 0, 0, 0, 1, 2, 0, 0, 3, 4, 0, 0, 0, 0, 0}));
  EXPECT_EQ(read_pixels(GreyImages("set", counting_image(1, 1), 10, 2)), (std::vector{1, 0, 0, 0}));
}

TEST(GreyImages, CropsOneSideAndPadsTheOther) {
  EXPECT_EQ(read_pixels(GreyImages("set", counting_image(1, 5), 10, 3)), (std::vector{0, 0, 0, 2, 3, 4, 0, 0, 0}));
}

TEST(GreyImages, RefusesWhatCannotBe) {
  EXPECT_THROW(GreyImages("set", counting_image(2, 2), 10, -1), InvalidArgument);
  EXPECT_THROW(GreyImages("set", counting_image(2, 2), 10, 1025), InvalidArgument);
  EXPECT_THROW(GreyImages("set", {.height = 2, .width = 2, .pixels = {1, 2, 3}, .labels = {4}}, 10, 0),
               InvalidArgument);
  const GreyImages set("set", counting_image(2, 2), 10, 0);
  std::vector<float> image(4), small(3);
  EXPECT_THROW(set.read(1, {}, image), InvalidArgument);
  EXPECT_THROW(set.read(-1, {}, image), InvalidArgument);
  EXPECT_THROW(set.read(0, {}, small), InvalidArgument);
  EXPECT_THROW(set.label(1), InvalidArgument);
}

}  // namespace
}  // namespace terngrad::grey_images_test
