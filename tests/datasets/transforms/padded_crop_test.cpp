#include "datasets/transforms/padded_crop.h"

#include <gtest/gtest.h>

#include <cstddef>
#include <vector>

#include "kernels/runtime/errors.h"

namespace terngrad::padded_crop_test {
namespace {

/// A 3 x 3 image: pixel p has red p, green 100 + p, blue 200 + p.
std::vector<std::uint8_t> nine_pixels() {
  std::vector<std::uint8_t> planar;
  for (const int first : {0, 100, 200}) {
    for (int p = 0; p < 9; ++p) planar.push_back(static_cast<std::uint8_t>(first + p + 1));
  }
  return planar;
}

/// Identity: (p / 255 - 0) / (1 / 255).
ByteTables plain() { return make_byte_tables({0, 0, 0}, {1 / 255.0, 1 / 255.0, 1 / 255.0}); }

/// Red values of a 3 x 3 window.
std::vector<float> red(const Augmentation& augmentation) {
  std::vector<float> image(27);
  padded_crop(nine_pixels(), 3, 1, augmentation, plain(), 3, image);
  std::vector<float> values;
  for (std::size_t i = 0; i < image.size(); i += 3) {
    values.push_back(image[i]);
    // Channels of a pixel stay together.
    EXPECT_EQ(image[i + 1], image[i] == 0 ? 0 : image[i] + 100);
    EXPECT_EQ(image[i + 2], image[i] == 0 ? 0 : image[i] + 200);
  }
  return values;
}

TEST(PaddedCrop, TakesAWindowOfTheImageWithABlackBorder) {
  EXPECT_EQ(red({.top = 1, .left = 1}), (std::vector<float>{1, 2, 3, 4, 5, 6, 7, 8, 9}));
  EXPECT_EQ(red({.top = 0, .left = 0}), (std::vector<float>{0, 0, 0, 0, 1, 2, 0, 4, 5}));
  EXPECT_EQ(red({.top = 2, .left = 0}), (std::vector<float>{0, 4, 5, 0, 7, 8, 0, 0, 0}));
  EXPECT_EQ(red({.top = 1, .left = 2, .flip = true}), (std::vector<float>{0, 3, 2, 0, 6, 5, 0, 9, 8}));
}

TEST(PaddedCrop, BytesAreStandardizedByMeanAndDeviationOfTheSet) {
  const ByteTables tables = make_byte_tables({0.5, 0.25, 0}, {0.25, 0.5, 2});
  EXPECT_EQ(tables[0][255], 2.0f);
  EXPECT_EQ(tables[0][0], -2.0f);
  EXPECT_EQ(tables[1][51], static_cast<float>((0.2 - 0.25) / 0.5));
  EXPECT_EQ(tables[2][255], 0.5f);
  // The border is black before standardization.
  std::vector<float> image(3);
  padded_crop(nine_pixels(), 3, 1, {}, tables, 1, image);
  EXPECT_EQ(image, (std::vector<float>{-2.0f, -0.5f, 0.0f}));
}

TEST(PaddedCrop, RefusesWindowsAndBuffersThatDoNotFit) {
  std::vector<float> image(27);
  const auto crop = [&](int border, const Augmentation& augmentation, int size) {
    padded_crop(nine_pixels(), 3, border, augmentation, plain(), size, image);
  };
  EXPECT_NO_THROW(crop(1, {.top = 2, .left = 2}, 3));
  EXPECT_THROW(crop(1, {.top = 3}, 3), InvalidArgument);
  EXPECT_THROW(crop(1, {.left = -1}, 3), InvalidArgument);
  EXPECT_THROW(crop(-1, {}, 1), InvalidArgument);
  EXPECT_THROW(crop(1, {}, 0), InvalidArgument);
  EXPECT_THROW(crop(1, {}, 2), InvalidArgument);
  EXPECT_THROW(crop(1, {.contrast = 0.5f}, 3), InvalidArgument);
  EXPECT_THROW(padded_crop(std::vector<std::uint8_t>(26), 3, 1, {}, plain(), 3, image), InvalidArgument);
  EXPECT_THROW(make_byte_tables({0, 0, 0}, {1, 0, 1}), InvalidArgument);
}

}  // namespace
}  // namespace terngrad::padded_crop_test
