#include "datasets/transforms/sampled_box.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <array>
#include <cmath>
#include <cstdint>
#include <set>
#include <vector>

namespace terngrad::sampled_box_test {
namespace {

ImageBox draw(int height, int width, std::int64_t index, std::span<const BoundingBox> objects = {}) {
  return draw_sampled_box(height, width, objects, ImageDraws({.seed = 2, .epoch = 1}, index));
}

void expect_inside(const ImageBox& box, int height, int width) {
  EXPECT_GE(box.top, 0);
  EXPECT_GE(box.left, 0);
  EXPECT_GE(box.height, 1);
  EXPECT_GE(box.width, 1);
  EXPECT_LE(box.top + box.height, height);
  EXPECT_LE(box.left + box.width, width);
}

bool is_whole(const ImageBox& box, int height, int width) { return box == ImageBox{0, 0, height, width}; }

TEST(SampledBox, BoxesKeepTheirLimits) {
  for (const auto& [height, width] : {std::pair{375, 500}, std::pair{500, 333}, std::pair{224, 300}}) {
    for (int index = 0; index < 3000; ++index) {
      const ImageBox box = draw(height, width, index);
      expect_inside(box, height, width);
      ASSERT_FALSE(is_whole(box, height, width));
      ASSERT_GE(box.height * box.width * 10, height * width);  // the whole image is the object
      ASSERT_NEAR(box.width, box.height * 1.04, box.height * 0.29 + 0.5001);
      // The last offset never occurs.
      ASSERT_TRUE(box.top + box.height < height || box.top == 0);
      ASSERT_TRUE(box.left + box.width < width || box.left == 0);
    }
  }
}

// The height is uniform between the smallest and largest possible for each aspect; boxes with less than a tenth of the
// image are rejected.
TEST(SampledBox, MeanAreaIsThatOfAUniformHeight) {
  constexpr double kHeight = 375, kWidth = 500, kArea = kHeight * kWidth;
  constexpr int kDraws = 20'000;
  double drawn = 0, expected = 0, accepted = 0;
  for (int index = 0; index < kDraws; ++index) {
    const ImageBox box = draw(375, 500, index);
    drawn += static_cast<double>(box.height) * box.width / kArea;
    const double aspect = 0.75 + 0.58 * (index + 0.5) / kDraws;
    const double smallest = std::sqrt(0.05 * kArea / aspect), tenth = std::sqrt(0.1 * kArea / aspect);
    const double largest = std::min({kHeight, kWidth / aspect, std::sqrt(kArea / aspect)});
    accepted += (largest - tenth) / (largest - smallest);
    expected += aspect * (std::pow(largest, 3) - std::pow(tenth, 3)) / 3 / (largest - smallest) / kArea;
  }
  EXPECT_NEAR(drawn / kDraws, expected / accepted, 0.006);
}

TEST(SampledBox, PlacesAreUniform) {
  std::array<int, 4> quarters{};
  constexpr int kDraws = 8000;
  for (int index = 0; index < kDraws; ++index) {
    const ImageBox box = draw(300, 300, index);
    if (box.height == 300 || box.width == 300) continue;
    ++quarters[static_cast<std::size_t>(2 * (2 * box.top >= 300 - box.height) + (2 * box.left >= 300 - box.width))];
  }
  for (const int count : quarters) EXPECT_NEAR(count, kDraws / 4, 200);
}

TEST(SampledBox, ShowsATenthOfSomeObject) {
  const std::vector<BoundingBox> objects = {{.x_min = 0.1f, .y_min = 0.1f, .x_max = 0.15f, .y_max = 0.2f},
                                            {.x_min = 0.5f, .y_min = 0.5f, .x_max = 0.5f, .y_max = 0.9f},  // no pixels
                                            {.x_min = 0.7f, .y_min = 0.75f, .x_max = 0.9f, .y_max = 0.95f}};
  constexpr int kHeight = 200, kWidth = 300;
  // In pixels: rows 20 to 40 and columns 30 to 45; rows 150 to 190 and columns 210 to 270.
  const auto covered = [](const ImageBox& box, int top, int left, int bottom, int right) {
    const int rows = std::min(bottom, box.top + box.height) - std::max(top, box.top);
    const int columns = std::min(right, box.left + box.width) - std::max(left, box.left);
    return std::max(rows, 0) * std::max(columns, 0) * 10 >= (bottom - top) * (right - left);
  };
  int first = 0, second = 0;
  for (int index = 0; index < 3000; ++index) {
    const ImageBox box = draw(kHeight, kWidth, index, objects);
    expect_inside(box, kHeight, kWidth);
    const bool shows_first = covered(box, 20, 30, 40, 45), shows_second = covered(box, 150, 210, 190, 270);
    ASSERT_TRUE(shows_first || shows_second) << index;
    first += shows_first ? 1 : 0;
    second += shows_second ? 1 : 0;
  }
  EXPECT_GT(first, 500);
  EXPECT_GT(second, 500);
}

TEST(SampledBox, WithoutASuitableBoxItIsTheWholeImage) {
  // The object has no pixels.
  const std::vector<BoundingBox> objects = {{.x_min = 0.5f, .y_min = 0.5f, .x_max = 0.5f, .y_max = 0.5f}};
  EXPECT_TRUE(is_whole(draw(100, 120, 0, objects), 100, 120));
  // 5 % of the area exceeds the image's height at all aspects.
  for (int index = 0; index < 20; ++index) EXPECT_TRUE(is_whole(draw(2, 500, index), 2, 500));
}

TEST(SampledBox, SmallImages) {
  for (int height = 1; height <= 12; ++height) {
    for (int width = 1; width <= 12; ++width) {
      for (int index = 0; index < 50; ++index) expect_inside(draw(height, width, index), height, width);
    }
  }
}

TEST(SampledBox, LaterAttemptsDrawOthers) {
  // An object in a corner takes many attempts, each with its own draws.
  const std::vector<BoundingBox> objects = {{.x_min = 0, .y_min = 0, .x_max = 0.04f, .y_max = 0.04f}};
  std::set<std::pair<int, int>> sizes;
  int whole = 0;
  for (int index = 0; index < 300; ++index) {
    const ImageBox box = draw(400, 400, index, objects);
    whole += is_whole(box, 400, 400) ? 1 : 0;
    sizes.insert({box.height, box.width});
  }
  EXPECT_LT(whole, 100);
  EXPECT_GT(sizes.size(), 150u);
}

TEST(SampledBox, BoxesArePinned) {
  EXPECT_EQ(draw(375, 500, 0), (ImageBox{184, 155, 162, 161}));
  EXPECT_EQ(draw(375, 500, 1), (ImageBox{12, 209, 358, 286}));
  EXPECT_EQ(draw(500, 375, 2), (ImageBox{138, 85, 257, 227}));
}

}  // namespace
}  // namespace terngrad::sampled_box_test
