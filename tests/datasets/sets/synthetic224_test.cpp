#include "datasets/sets/synthetic224.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <cstddef>
#include <vector>

#include "kernels/runtime/errors.h"
#include "kernels/tensor/crc32c.h"

namespace terngrad::synthetic224_test {
namespace {

std::vector<float> drawn(std::int64_t index, int size = 64, Subset subset = Subset::kTrain, std::uint64_t seed = 1) {
  std::vector<float> image(static_cast<std::size_t>(size) * static_cast<std::size_t>(size) * 3);
  draw_synthetic224(seed, subset, index, size, image);
  return image;
}

TEST(Synthetic224, IsASetOf100Classes) {
  const auto train = make_synthetic224({});
  EXPECT_EQ(train->name(), "synthetic224");
  EXPECT_EQ(train->num_examples(), 20'000);
  EXPECT_EQ(train->height(), 224);
  EXPECT_EQ(train->channels(), 3);
  EXPECT_EQ(train->num_classes(), 100);
  EXPECT_EQ(train->label(12'345), 45);
  EXPECT_FALSE(train->is_augmented());
  const auto test = make_synthetic224({.subset = Subset::kTest, .image_size = 64});
  EXPECT_EQ(test->num_examples(), 2'000);
  EXPECT_EQ(test->width(), 64);
  std::vector<float> image(64 * 64 * 3);
  test->read(17, {.seed = 3, .epoch = 9}, image);
  EXPECT_EQ(image, drawn(17, 64, Subset::kTest));
}

TEST(Synthetic224, EveryImageIsAnother) {
  EXPECT_EQ(drawn(5), drawn(5));
  EXPECT_NE(drawn(5), drawn(105));  // another example of the same class
  EXPECT_NE(drawn(5), drawn(5, 64, Subset::kTest));
  EXPECT_NE(drawn(5), drawn(5, 64, Subset::kTrain, 2));
}

TEST(Synthetic224, ImagesHaveContrastAndStayInRange) {
  for (const int size : {32, 47, 224, 320}) {
    for (std::int64_t index = 0; index < 30; ++index) {
      const std::vector<float> image = drawn(7 * index, size);
      const auto [least, most] = std::ranges::minmax(image);
      EXPECT_GE(least, -1.0f);
      EXPECT_LE(most, 1.0f);
      EXPECT_GT(most - least, 0.7f) << index << " of " << size;
    }
  }
}

/// Mean squared difference of pixels that are (x, y) apart.
double roughness(const std::vector<float>& image, int size, double x, double y) {
  const int dx = static_cast<int>(std::lround(x)), dy = static_cast<int>(std::lround(y));
  double sum = 0;
  int count = 0;
  for (int row = std::max(0, -dy); row < std::min(size, size - dy); ++row) {
    for (int column = std::max(0, -dx); column < std::min(size, size - dx); ++column) {
      for (int c = 0; c < 3; ++c) {
        const auto at = [&](int r, int k) { return image[static_cast<std::size_t>((r * size + k) * 3 + c)]; };
        const double difference = at(row, column) - at(row + dy, column + dx);
        sum += difference * difference;
        ++count;
      }
    }
  }
  return sum / count;
}

TEST(Synthetic224, TheGratingHasTheDirectionOfTheLabel) {
  // In most images pixels are more alike along the stripes than across; digits and noise interfere.
  constexpr double kPi = 3.14159265358979;
  int found = 0, tried = 0;
  for (std::int64_t index = 0; index < 300; index += 3) {
    const std::vector<float> image = drawn(index, 128);
    int smoothest = 0;
    double least = 1e9;
    for (int direction = 0; direction < 10; ++direction) {
      // Across the stripes is the label's direction; along them is perpendicular.
      const double angle = kPi * (18.0 * direction / 180.0 + 0.5);
      const double rough = roughness(image, 128, 9 * std::cos(angle), 9 * std::sin(angle));
      if (rough < least) {
        least = rough;
        smoothest = direction;
      }
    }
    ++tried;
    if (smoothest == synthetic224_label(index) / 10) ++found;
  }
  EXPECT_GT(found, tried * 7 / 10);
}

TEST(Synthetic224, BitsAreTheSameEverywhere) {
  const std::vector<float> image = drawn(1234, 100);
  EXPECT_EQ(crc32c({reinterpret_cast<const std::uint8_t*>(image.data()), image.size() * sizeof(float)}), 4050055415u);
}

TEST(Synthetic224, BadArgumentsAreRefused) {
  std::vector<float> image(64 * 64 * 3);
  EXPECT_THROW(draw_synthetic224(1, Subset::kTrain, 0, 63, image), InvalidArgument);
  EXPECT_THROW(draw_synthetic224(1, Subset::kTrain, -1, 64, image), InvalidArgument);
  EXPECT_THROW(draw_synthetic224(1, Subset::kTrain, std::int64_t{1} << 35, 64, image), InvalidArgument);
  EXPECT_THROW(make_synthetic224({.image_size = 31}), InvalidArgument);
  EXPECT_THROW(make_synthetic224({.image_size = 321}), InvalidArgument);
  EXPECT_THROW(make_synthetic224({.num_threads = -1}), InvalidArgument);
  EXPECT_THROW(make_synthetic224({})->label(20'000), InvalidArgument);
}

}  // namespace
}  // namespace terngrad::synthetic224_test
