#include "datasets/transforms/crop_preprocessing.h"

#include "datasets/transforms/image_draws.h"
#include "kernels/tensor/crc32c.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <set>

#include "datasets/transforms/resize.h"
#include "tests/datasets/image_files.h"

namespace terngrad::crop_preprocessing_test {
namespace {

/// A raw image: red is the row, green the column, blue 7.
class Ramp {
 public:
  Ramp(int height, int width) : height_(height), width_(width) {
    for (int row = 0; row < height; ++row) {
      for (int column = 0; column < width; ++column) {
        pixels_.insert(pixels_.end(), {static_cast<std::uint8_t>(row), static_cast<std::uint8_t>(column), 7});
      }
    }
  }
  StoredImage image() const {
    return {.name = "ramp", .bytes = pixels_, .is_raw = true, .height = height_, .width = width_};
  }
  const Bytes& pixels() const { return pixels_; }

 private:
  int height_;
  int width_;
  Bytes pixels_;
};

std::vector<float> run(const Preprocessing& preprocessing, const StoredImage& image, int size, std::uint64_t epoch = 0,
                       std::int64_t index = 0) {
  std::vector<float> square(3 * static_cast<std::size_t>(size) * static_cast<std::size_t>(size));
  preprocessing.run(image, {.seed = 1, .epoch = epoch}, index, square);
  return square;
}

double at(const std::vector<float>& square, int size, int y, int x, int c) {
  return static_cast<double>(square[static_cast<std::size_t>((y * size + x) * 3 + c)]);
}

/// The window that was taken from a ramp without resizing.
struct Window {
  int top;
  int left;
  bool flip;
};

Window window_of(const std::vector<float>& square, int size) {
  const double red = at(square, size, 0, 0, 0) + 123.68, green = at(square, size, 0, 0, 1) + 116.78;
  const bool flip = at(square, size, 0, 1, 1) < at(square, size, 0, 0, 1);
  const int first = static_cast<int>(std::lround(green));
  return {.top = static_cast<int>(std::lround(red)), .left = flip ? first - size + 1 : first, .flip = flip};
}

TEST(CropPreprocessing, AlexnetEvaluationIsTheMiddleLessTheMeans) {
  const Ramp ramp(256, 256);
  const auto preprocessing = make_alexnet_preprocessing(Subset::kTest, 224);
  EXPECT_FALSE(preprocessing->is_augmented());
  const std::vector<float> square = run(*preprocessing, ramp.image(), 224);
  for (int y = 0; y < 224; ++y) {
    for (int x = 0; x < 224; ++x) {
      ASSERT_NEAR(at(square, 224, y, x, 0), y + 16 - 123.68, 1e-4);
      ASSERT_NEAR(at(square, 224, y, x, 1), x + 16 - 116.78, 1e-4);
      ASSERT_NEAR(at(square, 224, y, x, 2), 7 - 103.94, 1e-4);
    }
  }
}

TEST(CropPreprocessing, AlexnetIgnoresTheAspect) {
  const Ramp ramp(128, 64);  // to 256 x 256: positions y / 2, x / 4; the last pixel repeats
  const std::vector<float> square = run(*make_alexnet_preprocessing(Subset::kTest, 256), ramp.image(), 256);
  for (const int y : {0, 1, 100, 253, 255}) {
    for (const int x : {0, 3, 77, 251, 254}) {
      ASSERT_NEAR(at(square, 256, y, x, 0), std::min(y / 2.0, 127.0) - 123.68, 1e-4);
      ASSERT_NEAR(at(square, 256, y, x, 1), std::min(x / 4.0, 63.0) - 116.78, 1e-4);
    }
  }
}

TEST(CropPreprocessing, AlexnetTrainingTakesEveryOffsetAndBothSides) {
  const Ramp ramp(256, 256);
  const auto preprocessing = make_alexnet_preprocessing(Subset::kTrain, 224);
  EXPECT_TRUE(preprocessing->is_augmented());
  std::set<int> tops, lefts;
  int flips = 0;
  constexpr int kVisits = 400;
  for (int visit = 0; visit < kVisits; ++visit) {
    const std::vector<float> square =
        run(*preprocessing, ramp.image(), 224, static_cast<std::uint64_t>(visit / 20), visit % 20);
    const Window window = window_of(square, 224);
    tops.insert(window.top);
    lefts.insert(window.left);
    flips += window.flip ? 1 : 0;
    // The window follows the draws, and all pixels belong to it.
    const ImageDraws draws({.seed = 1, .epoch = static_cast<std::uint64_t>(visit / 20)}, visit % 20);
    ASSERT_EQ(window.top, below_of(draws.block(2)[2], 33));
    ASSERT_EQ(window.left, below_of(draws.block(2)[3], 33));
    ASSERT_EQ(window.flip, coin_of(draws.block(0)[1]));
    for (int x = 0; x < 224; ++x) {
      ASSERT_NEAR(at(square, 224, 100, x, 1), window.left + (window.flip ? 223 - x : x) - 116.78, 1e-4);
    }
  }
  EXPECT_EQ(tops.size(), 33u);
  EXPECT_EQ(*tops.begin(), 0);
  EXPECT_EQ(*tops.rbegin(), 32);
  EXPECT_EQ(lefts.size(), 33u);
  EXPECT_NEAR(flips, kVisits / 2, 50);
}

TEST(CropPreprocessing, VggKeepsTheAspect) {
  const Ramp ramp(64, 128);  // to 256 x 512, middle 224: rows from 16, columns from 144
  const std::vector<float> square = run(*make_vgg_preprocessing(Subset::kTest, 224), ramp.image(), 224);
  for (const int y : {0, 1, 100, 223}) {
    for (const int x : {0, 3, 77, 223}) {
      ASSERT_NEAR(at(square, 224, y, x, 0), (y + 16) / 4.0 - 123.68, 1e-4);
      ASSERT_NEAR(at(square, 224, y, x, 1), (x + 144) / 4.0 - 116.78, 1e-4);
    }
  }
}

TEST(CropPreprocessing, VggTrainingDrawsTheShorterSide) {
  const Ramp ramp(250, 255);
  const auto preprocessing = make_vgg_preprocessing(Subset::kTrain, 224);
  std::set<int> sides;
  for (int index = 0; index < 200; ++index) {
    const int side = 256 + below_of(ImageDraws({.seed = 1, .epoch = 0}, index).block(1)[2], 257);
    sides.insert(side);
    // Neighbouring rows differ by 250 / side, for each crop.
    const std::vector<float> square = run(*preprocessing, ramp.image(), 224, 0, index);
    ASSERT_NEAR(at(square, 224, 150, 9, 0) - at(square, 224, 20, 9, 0), 130 * 250.0 / side, 1e-2);
  }
  EXPECT_LT(*sides.begin(), 270);
  EXPECT_GT(*sides.rbegin(), 500);
  EXPECT_LE(*sides.rbegin(), 512);
}

TEST(CropPreprocessing, StandardEvaluationIsTheMiddleOfResizeToSquare) {
  const Ramp ramp(200, 141);
  const std::vector<float> square = run(*make_standard_preprocessing(Subset::kTest, 56), ramp.image(), 56);
  std::vector<float> whole(3 * 64 * 64);
  resize_to_square({.height = 200, .width = 141, .channels = 3, .pixels = ramp.pixels()}, 64, whole);
  for (int y = 0; y < 56; ++y) {
    for (int x = 0; x < 56; ++x) {
      // 200 becomes 90; resize_to_square cuts 13 and this preprocessing 17.
      for (int c = 0; c < 3; ++c) ASSERT_EQ(at(square, 56, y, x, c), at(whole, 64, y + 4, x + 4, c));
    }
  }
}

TEST(CropPreprocessing, StandardValuesLieInTheRange) {
  const Bytes pixels = counting_bytes(3 * 90 * 70);
  const StoredImage image{.name = "noise", .bytes = pixels, .is_raw = true, .height = 90, .width = 70};
  const auto preprocessing = make_standard_preprocessing(Subset::kTrain, 64);
  for (int index = 0; index < 50; ++index) {
    for (const float value : run(*preprocessing, image, 64, 0, index)) {
      ASSERT_GE(value, -1.0001f);
      ASSERT_LE(value, 1.0001f);
    }
  }
}

TEST(CropPreprocessing, NarrowImagesAreEnlarged) {
  const Ramp ramp(1, 200);
  for (const auto& make : {make_alexnet_preprocessing, make_vgg_preprocessing, make_standard_preprocessing}) {
    for (const Subset subset : {Subset::kTrain, Subset::kTest}) {
      for (const float value : run(*make(subset, 32), ramp.image(), 32)) ASSERT_TRUE(std::isfinite(value));
    }
  }
}

TEST(CropPreprocessing, BitsArePinned) {
  const Bytes pixels = counting_bytes(3 * 61 * 83);
  const StoredImage image{.name = "noise", .bytes = pixels, .is_raw = true, .height = 61, .width = 83};
  const auto crc = [&](std::unique_ptr<Preprocessing> (*make)(Subset, int)) {
    const std::vector<float> square = run(*make(Subset::kTrain, 48), image, 48, 3, 5);
    return crc32c({reinterpret_cast<const std::uint8_t*>(square.data()), square.size() * sizeof(float)});
  };
  EXPECT_EQ(crc(make_alexnet_preprocessing), 1380687969u);
  EXPECT_EQ(crc(make_vgg_preprocessing), 2625673678u);
  EXPECT_EQ(crc(make_standard_preprocessing), 75924882u);
}

}  // namespace
}  // namespace terngrad::crop_preprocessing_test
