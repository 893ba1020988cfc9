#include "datasets/transforms/augmentation.h"

#include "kernels/random/philox.h"
#include "kernels/runtime/errors.h"
#include "kernels/tensor/crc32c.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <array>
#include <cmath>
#include <cstddef>
#include <vector>

#include "tests/datasets/data_files.h"

namespace terngrad::augmentation_test {
namespace {

/// The recipe in double: crop, flip, brightness, contrast about each channel's mean, standardization.
std::vector<double> recipe(const Bytes& planar, int source_size, const Augmentation& a, int size, double brightness) {
  const auto at = [&](int row, int column, int channel) {
    const int from = a.flip ? size - 1 - column : column;
    const int position = (channel * source_size + a.top + row) * source_size + a.left + from;
    return planar[static_cast<std::size_t>(position)] / 255.0 + brightness;
  };
  std::array<double, 3> channel_mean{};
  for (int row = 0; row < size; ++row) {
    for (int column = 0; column < size; ++column) {
      for (int channel = 0; channel < 3; ++channel) {
        channel_mean[static_cast<std::size_t>(channel)] += at(row, column, channel) / (size * size);
      }
    }
  }
  std::vector<double> y;
  for (int row = 0; row < size; ++row) {
    for (int column = 0; column < size; ++column) {
      for (int channel = 0; channel < 3; ++channel) {
        const double mean = channel_mean[static_cast<std::size_t>(channel)];
        y.push_back((at(row, column, channel) - mean) * static_cast<double>(a.contrast) + mean);
      }
    }
  }
  double mean = 0, variance = 0;
  const auto count = static_cast<double>(y.size());
  for (const double value : y) mean += value / count;
  for (const double value : y) variance += (value - mean) * (value - mean) / count;
  const double deviation = std::max(std::sqrt(variance), 1 / std::sqrt(count));
  for (double& value : y) value = (value - mean) / deviation;
  return y;
}

std::vector<float> standardized(const Bytes& planar, int source_size, const Augmentation& a, int size) {
  std::vector<float> image(3 * static_cast<std::size_t>(size) * static_cast<std::size_t>(size));
  standardize_crop(planar, source_size, a, size, image);
  return image;
}

TEST(StandardizeCrop, IsTheRecipeWhateverTheBrightness) {
  const Bytes planar = counting_bytes(3 * 32 * 32);
  for (const int size : {1, 2, 7, 23, 24, 32}) {
    for (const bool flip : {false, true}) {
      for (const float contrast : {0.2f, 0.77f, 1.0f, 1.8f}) {
        const Augmentation a{.top = (32 - size) / 3, .left = (32 - size) / 2, .flip = flip, .contrast = contrast};
        const std::vector<float> image = standardized(planar, 32, a, size);
        for (const double brightness : {-63.0 / 255, 0.0, 0.2}) {
          const std::vector<double> expected = recipe(planar, 32, a, size, brightness);
          ASSERT_EQ(image.size(), expected.size());
          for (std::size_t i = 0; i < image.size(); ++i) {
            ASSERT_NEAR(static_cast<double>(image[i]), expected[i], 2e-6) << size << " " << contrast << " " << i;
          }
        }
      }
    }
  }
}

TEST(StandardizeCrop, MeanIsZeroAndDeviationOne) {
  const std::vector<float> image = standardized(counting_bytes(3 * 32 * 32), 32, {.top = 4, .left = 4}, 24);
  double sum = 0, squares = 0;
  for (const float value : image) {
    sum += static_cast<double>(value);
    squares += static_cast<double>(value) * static_cast<double>(value);
  }
  EXPECT_NEAR(sum / static_cast<double>(image.size()), 0, 1e-6);
  EXPECT_NEAR(squares / static_cast<double>(image.size()), 1, 1e-5);
}

TEST(StandardizeCrop, FlatImagesAreZeroAndNearlyFlatOnesAreNotBlownUp) {
  Bytes planar(3 * 8 * 8, 200);
  for (const float contrast : {0.2f, 0.3f, 1.0f, 1.8f}) {
    for (const float value : standardized(planar, 8, {.contrast = contrast}, 8)) EXPECT_EQ(value, 0.0f) << contrast;
  }
  // One pixel differs by 1: its deviation is below the minimum 1 / sqrt(192), which is used instead.
  planar[0] = 201;
  const std::vector<float> image = standardized(planar, 8, {}, 8);
  EXPECT_NEAR(image[0], std::sqrt(192.0) / 255 * (1 - 1.0 / 192), 1e-5);
}

TEST(StandardizeCrop, TakesTheWindowAndFlipsIt) {
  // Red is the row, green the column, blue 0: identifies positions.
  Bytes planar(3 * 5 * 5, 0);
  for (std::size_t i = 0; i < 25; ++i) {
    planar[i] = static_cast<std::uint8_t>(i / 5 * 10);
    planar[25 + i] = static_cast<std::uint8_t>(i % 5 * 10);
  }
  const auto columns = [&](bool flip) {
    const std::vector<float> image = standardized(planar, 5, {.top = 1, .left = 2, .flip = flip}, 2);
    // Differences in units of a pixel value, derived from the known difference of 10 between the rows.
    const double unit = static_cast<double>(image[6] - image[0]) / 10;
    return std::array{std::lround(static_cast<double>(image[4] - image[1]) / unit),
                      std::lround(static_cast<double>(image[1] - image[2]) / unit)};
  };
  EXPECT_EQ(columns(false), (std::array{10L, 20L}));  // columns 2, 3
  EXPECT_EQ(columns(true), (std::array{-10L, 30L}));  // columns 3, 2
}

TEST(StandardizeCrop, BitsArePinned) {
  const Augmentation a{.top = 3, .left = 5, .flip = true, .contrast = 1.375f};
  const std::vector<float> image = standardized(counting_bytes(3 * 32 * 32), 32, a, 24);
  EXPECT_EQ(crc32c({reinterpret_cast<const std::uint8_t*>(image.data()), image.size() * sizeof(float)}), 2656710577u);
}

TEST(StandardizeCrop, RefusesWhatCannotBe) {
  const Bytes planar(3 * 8 * 8);
  std::vector<float> image(3 * 4 * 4), small(5);
  const auto crop = [&](const Augmentation& a, int size) { standardize_crop(planar, 8, a, size, image); };
  EXPECT_NO_THROW(crop({.top = 4, .left = 4}, 4));
  EXPECT_THROW(crop({.top = 5}, 4), InvalidArgument);
  EXPECT_THROW(crop({.left = 5}, 4), InvalidArgument);
  EXPECT_THROW(crop({.top = -1}, 4), InvalidArgument);
  EXPECT_THROW(crop({.left = -1}, 4), InvalidArgument);
  EXPECT_THROW(crop({}, 0), InvalidArgument);
  EXPECT_THROW(crop({}, 9), InvalidArgument);
  EXPECT_THROW(crop({.contrast = 0}, 4), InvalidArgument);
  EXPECT_THROW(crop({.contrast = 2}, 4), InvalidArgument);
  EXPECT_THROW(crop({.contrast = NAN}, 4), InvalidArgument);
  EXPECT_THROW(standardize_crop(planar, 8, {}, 4, small), InvalidArgument);
  EXPECT_THROW(standardize_crop(planar, 7, {}, 4, image), InvalidArgument);
}

TEST(DrawAugmentation, FollowsTheDocumentedWords) {
  const DrawKey key{.seed = 7, .step = 3, .worker = 0, .purpose = DrawPurpose::kAugmentation};
  for (const std::int64_t index : {std::int64_t{0}, std::int64_t{49'999}, (std::int64_t{1} << 48) - 1}) {
    const auto words = draw_block(key, static_cast<std::uint64_t>(index));
    const Augmentation a = draw_augmentation({.seed = 7, .epoch = 3}, index, 8);
    EXPECT_EQ(a.top * 9 + a.left, static_cast<int>(words[0] / 4294967296.0 * 81));
    EXPECT_EQ(a.flip, words[1] >= 0x80000000u);
    EXPECT_NEAR(a.contrast, 0.2 + 1.6 * (words[3] / 4294967296.0), 1e-6);
  }
}

TEST(DrawAugmentation, DependsOnSeedEpochAndIndex) {
  const auto same = [](const Augmentation& a, const Augmentation& b) { return a.contrast == b.contrast; };
  const Augmentation first = draw_augmentation({.seed = 1, .epoch = 1}, 1, 8);
  EXPECT_TRUE(same(first, draw_augmentation({.seed = 1, .epoch = 1}, 1, 8)));
  EXPECT_FALSE(same(first, draw_augmentation({.seed = 2, .epoch = 1}, 1, 8)));
  EXPECT_FALSE(same(first, draw_augmentation({.seed = 1, .epoch = 2}, 1, 8)));
  EXPECT_FALSE(same(first, draw_augmentation({.seed = 1, .epoch = 1}, 2, 8)));
}

TEST(DrawAugmentation, IsUniform) {
  constexpr int kDraws = 81'000;
  std::array<int, 81> windows{};
  int flips = 0;
  double contrast = 0;
  for (int i = 0; i < kDraws; ++i) {
    const Augmentation a = draw_augmentation({.seed = 5, .epoch = 0}, i, 8);
    ASSERT_TRUE(a.top >= 0 && a.top <= 8 && a.left >= 0 && a.left <= 8);
    ++windows[static_cast<std::size_t>(a.top * 9 + a.left)];
    flips += a.flip ? 1 : 0;
    ASSERT_TRUE(a.contrast >= 0.2f && a.contrast <= 1.8f);
    contrast += static_cast<double>(a.contrast) / kDraws;
  }
  // Chi-square with 80 degrees of freedom exceeds 164 with probability below 1e-7.
  double chi_square = 0;
  for (const int count : windows) chi_square += (count - 1000.0) * (count - 1000.0) / 1000.0;
  EXPECT_LT(chi_square, 164);
  EXPECT_NEAR(flips, kDraws / 2, 5 * std::sqrt(kDraws / 4.0));
  EXPECT_NEAR(contrast, 1.0, 5 * 1.6 / std::sqrt(12.0 * kDraws));
}

TEST(DrawAugmentation, RefusesWhatHasNoCounter) {
  EXPECT_THROW(draw_augmentation({}, -1, 8), InvalidArgument);
  EXPECT_THROW(draw_augmentation({}, std::int64_t{1} << 48, 8), InvalidArgument);
  EXPECT_THROW(draw_augmentation({.seed = 1, .epoch = std::uint64_t{1} << 40}, 0, 8), InvalidArgument);
  EXPECT_THROW(draw_augmentation({}, 0, -1), InvalidArgument);
  EXPECT_THROW(draw_augmentation({}, 0, 257), InvalidArgument);
  EXPECT_EQ(draw_augmentation({}, 0, 0).top, 0);
}

}  // namespace
}  // namespace terngrad::augmentation_test
