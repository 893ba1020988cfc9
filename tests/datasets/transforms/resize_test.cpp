#include "datasets/transforms/resize.h"

#include "kernels/runtime/errors.h"
#include "kernels/tensor/crc32c.h"

#include <gtest/gtest.h>

#include <cmath>
#include <vector>

#include "tests/datasets/data_files.h"

namespace terngrad::resize_test {
namespace {

DecodedImage make_image(int height, int width, int channels, const Bytes& pixels) {
  return {.height = height, .width = width, .channels = channels, .pixels = pixels};
}

/// The result in units of pixel values.
std::vector<double> resized(const DecodedImage& image, int size) {
  std::vector<float> square(static_cast<std::size_t>(size) * static_cast<std::size_t>(size) *
                            static_cast<std::size_t>(image.channels));
  resize_to_square(image, size, square);
  std::vector<double> values;
  for (const float value : square) values.push_back((static_cast<double>(value) / 2 + 0.5) * 255);
  return values;
}

void expect_near(const std::vector<double>& found, const std::vector<double>& expected) {
  ASSERT_EQ(found.size(), expected.size());
  for (std::size_t i = 0; i < found.size(); ++i) EXPECT_NEAR(found[i], expected[i], 1e-4) << i;
}

TEST(Resize, SameSizeCopies) {
  const Bytes pixels = counting_bytes(5 * 5 * 3);
  expect_near(resized(make_image(5, 5, 3, pixels), 5), {pixels.begin(), pixels.end()});
}

TEST(Resize, CropsTheMiddleOfTheLongerSide) {
  expect_near(resized(make_image(2, 5, 1, {0, 1, 2, 3, 4, 5, 6, 7, 8, 9}), 2), {1, 2, 6, 7});
  expect_near(resized(make_image(5, 2, 1, {0, 1, 2, 3, 4, 5, 6, 7, 8, 9}), 2), {2, 3, 4, 5});
}

TEST(Resize, EnlargesLinearly) {
  // Double size: target centres lie at -0.25, 0.25, 0.75, 1.25 of the source; the edge pixel repeats.
  expect_near(resized(make_image(2, 2, 1, {0, 100, 0, 100}), 4),
              {0, 25, 75, 100, 0, 25, 75, 100, 0, 25, 75, 100, 0, 25, 75, 100});
}

TEST(Resize, ReducesByAWeightedMean) {
  // From 4 to 2: a triangle of radius 2 around the target's centre has weights 0.75, 0.75, 0.25, and is cut at the
  // edge.
  const double left = (0.75 * 10 + 0.75 * 20 + 0.25 * 30) / 1.75;
  const double right = (0.75 * 40 + 0.75 * 30 + 0.25 * 20) / 1.75;
  Bytes pixels(16);
  for (std::size_t i = 0; i < pixels.size(); ++i) pixels[i] = static_cast<std::uint8_t>(10 + 10 * (i % 4));
  expect_near(resized(make_image(4, 4, 1, pixels), 2), {left, right, left, right});
}

TEST(Resize, FlatStaysFlatAndChannelsStayApart) {
  Bytes pixels(37 * 53 * 3, 0);
  for (std::size_t i = 0; i < pixels.size(); i += 3) {
    pixels[i + 1] = 129;
    pixels[i + 2] = 255;
  }
  for (const int size : {1, 7, 36, 37, 64}) {
    const std::vector<double> values = resized(make_image(37, 53, 3, pixels), size);
    for (std::size_t i = 0; i < values.size(); ++i) {
      ASSERT_NEAR(values[i], (std::vector{0.0, 129.0, 255.0}[i % 3]), 1e-4) << size;
    }
  }
}

TEST(Resize, BitsArePinned) {
  std::vector<float> square(17 * 17 * 3);
  resize_to_square(make_image(40, 60, 3, counting_bytes(40 * 60 * 3)), 17, square);
  EXPECT_EQ(crc32c({reinterpret_cast<const std::uint8_t*>(square.data()), square.size() * sizeof(float)}), 3994376728u);
}

TEST(Resize, RefusesWhatCannotBe) {
  const DecodedImage image = make_image(2, 2, 1, {1, 2, 3, 4});
  std::vector<float> square(4);
  EXPECT_NO_THROW(resize_to_square(image, 2, square));
  EXPECT_THROW(resize_to_square(image, 3, square), InvalidArgument);
  EXPECT_THROW(resize_to_square(image, 0, square), InvalidArgument);
  EXPECT_THROW(resize_to_square(image, 5000, square), InvalidArgument);
  EXPECT_THROW(resize_to_square(make_image(2, 2, 1, {1, 2, 3}), 2, square), InvalidArgument);
  EXPECT_THROW(resize_to_square(make_image(0, 2, 1, {}), 2, square), InvalidArgument);
}

TEST(Resize, OfTheShorterSideKeepsTheWholeImage) {
  const DecodedImage wide = resize_shorter_side(make_image(2, 5, 1, {0, 1, 2, 3, 4, 5, 6, 7, 8, 9}), 2);
  EXPECT_EQ(wide.pixels, (Bytes{0, 1, 2, 3, 4, 5, 6, 7, 8, 9}));
  const DecodedImage tall = resize_shorter_side(make_image(7, 3, 3, counting_bytes(63)), 2);
  EXPECT_EQ(tall.height, 4);  // 4.67 rounded down
  EXPECT_EQ(tall.width, 2);
  EXPECT_EQ(tall.channels, 3);
  EXPECT_EQ(tall.pixels.size(), 24u);
}

TEST(Resize, OfTheShorterSideRoundsToTheNearestByte) {
  // From 4 to 2, as in ReducesByAWeightedMean: 17.14 and 32.86 of 10, 20, 30, 40.
  Bytes pixels(16);
  for (std::size_t i = 0; i < pixels.size(); ++i) pixels[i] = static_cast<std::uint8_t>(10 + 10 * (i % 4));
  EXPECT_EQ(resize_shorter_side(make_image(4, 4, 1, pixels), 2).pixels, (Bytes{17, 33, 17, 33}));
  EXPECT_EQ(resize_shorter_side(make_image(3, 3, 1, Bytes(9, 255)), 2).pixels, Bytes(4, 255));
}

TEST(Resize, OfTheShorterSideRefusesWhatCannotBe) {
  EXPECT_THROW(resize_shorter_side(make_image(2, 2, 1, Bytes(4)), 0), InvalidArgument);
  EXPECT_THROW(resize_shorter_side(make_image(2, 2, 1, Bytes(3)), 1), InvalidArgument);
  EXPECT_THROW(resize_shorter_side(make_image(1, 100, 1, Bytes(100)), 400), InvalidArgument);  // 40,000 columns
}

}  // namespace
}  // namespace terngrad::resize_test
