#include "datasets/transforms/inception_preprocessing.h"

#include "datasets/transforms/colour_distortion.h"
#include "datasets/transforms/image_draws.h"
#include "datasets/transforms/sampled_box.h"
#include "kernels/tensor/crc32c.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <array>
#include <cmath>
#include <limits>

#include "datasets/formats/jpeg_image.h"
#include "tests/datasets/image_files.h"
#include "tests/support/simd_targets.h"

namespace terngrad::inception_preprocessing_test {
namespace {

using ::testing::AllOf;
using ::testing::HasSubstr;

constexpr int kHeight = 96;
constexpr int kWidth = 120;
constexpr int kSize = 48;

std::vector<float> run(Subset subset, const StoredImage& image, std::int64_t index = 0, std::uint64_t epoch = 0) {
  std::vector<float> square(3 * kSize * kSize);
  make_inception_preprocessing(subset, kSize)->run(image, {.seed = 1, .epoch = epoch}, index, square);
  return square;
}

StoredImage raw_image(const Bytes& pixels) {
  return {.name = "some raw", .bytes = pixels, .is_raw = true, .height = kHeight, .width = kWidth};
}

/// Pixel of the box at a source position, clamped to the box.
double pixel(const Bytes& pixels, const ImageBox& box, int row, int column, int c) {
  const int y = box.top + std::clamp(row, 0, box.height - 1), x = box.left + std::clamp(column, 0, box.width - 1);
  return pixels[static_cast<std::size_t>((y * kWidth + x) * 3 + c)];
}

double cubic(double x) {
  x = std::fabs(x);
  const double a = -0.75;
  if (x <= 1) return ((a + 2) * x - (a + 3)) * x * x + 1;
  return x < 2 ? ((a * x - 5 * a) * x + 8 * a) * x - 4 * a : 0;
}

/// Value of a resized box, by the definition of each method.
double resized(const Bytes& pixels, const ImageBox& box, unsigned method, int y, int x, int c) {
  const double sy = static_cast<double>(box.height) / kSize, sx = static_cast<double>(box.width) / kSize;
  const int row = static_cast<int>(y * sy), column = static_cast<int>(x * sx);
  const double fy = y * sy - row, fx = x * sx - column;
  const auto at = [&](int dy, int dx) { return pixel(pixels, box, row + dy, column + dx, c); };
  double sum = 0;
  switch (method) {
    case 0:
      return (1 - fy) * ((1 - fx) * at(0, 0) + fx * at(0, 1)) + fy * ((1 - fx) * at(1, 0) + fx * at(1, 1));
    case 1:
      return at(0, 0);
    case 2:
      for (int dy = -1; dy <= 2; ++dy) {
        for (int dx = -1; dx <= 2; ++dx) sum += cubic(fy - dy) * cubic(fx - dx) * at(dy, dx);
      }
      return sum;
    default:
      for (int r = row; r < (y + 1) * sy; ++r) {
        for (int s = column; s < (x + 1) * sx; ++s) {
          const double rows = std::min(r + 1.0, (y + 1) * sy) - std::max<double>(r, y * sy);
          const double columns = std::min(s + 1.0, (x + 1) * sx) - std::max<double>(s, x * sx);
          sum += rows * columns * pixel(pixels, box, r, s, c);
        }
      }
      return sum / (sy * sx);
  }
}

TEST(InceptionPreprocessing, EvaluationSeesTheMiddle) {
  const Bytes pixels = smooth_pixels(kHeight, kWidth, 3);
  const std::vector<float> square = run(Subset::kTest, raw_image(pixels));
  const ImageBox box{.top = 6, .left = 7, .height = 84, .width = 106};
  std::size_t i = 0;
  for (int y = 0; y < kSize; ++y) {
    for (int x = 0; x < kSize; ++x) {
      for (int c = 0; c < 3; ++c) {
        ASSERT_NEAR(static_cast<double>(square[i++]), 2 * (resized(pixels, box, 0, y, x, c) / 255 - 0.5), 1e-5);
      }
    }
  }
}

// All methods and orders of distortions, compared with the definition of each step.
TEST(InceptionPreprocessing, TrainingFollowsItsDraws) {
  const Bytes pixels = smooth_pixels(kHeight, kWidth, 3);
  std::array<int, 4> methods{};
  int flips = 0;
  for (int index = 0; index < 40; ++index) {
    const ImageDraws draws({.seed = 1, .epoch = 0}, index);
    const unsigned method = draws.block(0)[0] >> 30;
    const bool flip = coin_of(draws.block(0)[1]);
    ++methods[method];
    flips += flip ? 1 : 0;
    const ImageBox box = draw_sampled_box(kHeight, kWidth, {}, draws);
    std::vector<float> expected;
    for (int y = 0; y < kSize; ++y) {
      for (int x = 0; x < kSize; ++x) {
        for (int c = 0; c < 3; ++c) {
          expected.push_back(static_cast<float>(resized(pixels, box, method, y, flip ? kSize - 1 - x : x, c) / 255));
        }
      }
    }
    const ColourDistortion distortion = draw_colour_distortion(draws);
    EXPECT_EQ(distortion.is_contrast_last, method % 2 == 0);
    distort_colours(distortion, expected);
    const std::vector<float> square = run(Subset::kTrain, raw_image(pixels), index);
    for (std::size_t i = 0; i < square.size(); ++i) {
      // Positions for cubic weights are rounded to 1/1024.
      ASSERT_NEAR(square[i], 2 * (std::clamp(expected[i], 0.0f, 1.0f) - 0.5f), method == 2 ? 2e-3f : 2e-5f)
          << method << ", " << index;
    }
  }
  for (const int count : methods) EXPECT_GT(count, 3);
  EXPECT_GT(flips, 10);
  EXPECT_LT(flips, 30);
}

TEST(InceptionPreprocessing, ValuesLieInTheRange) {
  const Bytes pixels = counting_bytes(3 * kHeight * kWidth);  // edges, at which cubic weights overshoot
  for (int index = 0; index < 100; ++index) {
    for (const float value : run(Subset::kTrain, raw_image(pixels), index)) {
      ASSERT_GE(value, -1.0f);
      ASSERT_LE(value, 1.0f);
    }
  }
}

TEST(InceptionPreprocessing, AJpegImageIsWhatItsPixelsAre) {
  const Bytes file = jpeg(counting_bytes(3 * kHeight * kWidth), kHeight, kWidth);
  const DecodedImage whole = decode_jpeg("some", file, 3);
  for (const Subset subset : {Subset::kTrain, Subset::kTest}) {
    for (int index = 0; index < 20; ++index) {
      ASSERT_EQ(run(subset, {.name = "some", .bytes = file}, index), run(subset, raw_image(whole.pixels), index));
    }
  }
}

TEST(InceptionPreprocessing, ObjectsDecideWhatIsSeen) {
  const Bytes pixels = counting_bytes(3 * kHeight * kWidth);
  const std::vector<BoundingBox> objects = {{.x_min = 0.9f, .y_min = 0.9f, .x_max = 1, .y_max = 1}};
  StoredImage image = raw_image(pixels);
  int differing = 0;
  for (int index = 0; index < 20; ++index) {
    image.boxes = {};
    const std::vector<float> without = run(Subset::kTrain, image, index);
    image.boxes = objects;
    differing += run(Subset::kTrain, image, index) != without ? 1 : 0;
  }
  EXPECT_GT(differing, 10);
}

TEST(InceptionPreprocessing, BoxesThatAreNoneAreRefused) {
  const Bytes pixels = counting_bytes(3 * kHeight * kWidth);
  StoredImage image = raw_image(pixels);
  for (const BoundingBox& box :
       {BoundingBox{.x_min = -0.1f}, BoundingBox{.x_max = 1.1f}, BoundingBox{.y_min = 0.6f, .y_max = 0.5f},
        BoundingBox{.y_max = std::numeric_limits<float>::quiet_NaN()}}) {
    const std::vector<BoundingBox> objects = {BoundingBox{}, box};
    image.boxes = objects;
    EXPECT_THAT(data_error([&] { run(Subset::kTrain, image); }),
                AllOf(HasSubstr("'some raw'"), HasSubstr("bounding box")));
  }
}

TEST(InceptionPreprocessing, BitsArePinnedOnEveryTarget) {
  const Bytes pixels = counting_bytes(3 * kHeight * kWidth);
  testing::for_each_target([&](const std::string& target) {
    std::uint32_t crc = 0;
    for (int index = 0; index < 16; ++index) {
      const std::vector<float> square = run(Subset::kTrain, raw_image(pixels), index, 2);
      crc = crc * 31 + crc32c({reinterpret_cast<const std::uint8_t*>(square.data()), square.size() * sizeof(float)});
    }
    EXPECT_EQ(crc, 1861156191u) << target;
  });
}

}  // namespace
}  // namespace terngrad::inception_preprocessing_test
