#include "trainers/records/resized_images.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <array>
#include <memory>
#include <span>
#include <string>
#include <tuple>
#include <utility>

#include "datasets/formats/image_file.h"
#include "kernels/runtime/errors.h"
#include "tests/datasets/record_files.h"

namespace terngrad::resized_images_test {
namespace {

/// A wide, a tall, a small and a grey image, with a name and a box.
class FourImages final : public ImageSource {
 public:
  std::size_t size() const override { return 4; }
  ImageExample example(std::size_t index) const override {
    constexpr int kHeights[] = {20, 48, 6, 40};
    constexpr int kWidths[] = {50, 16, 9, 40};
    const int channels = index == 3 ? 1 : 3;
    return {.encoded = encode_png(plain_image(kHeights[index], kWidths[index], channels, 100)),
            .height = kHeights[index],
            .width = kWidths[index],
            .channels = channels,
            .label = 7,
            .filename = "image",
            .boxes = {{.x_min = 0.25f, .y_min = 0, .x_max = 1, .y_max = 0.5f}}};
  }
  std::string name(std::size_t index) const override { return "photographs/" + std::to_string(index); }
  std::string key(std::size_t index) const override { return std::to_string(index); }
};

ImageSources four() { return {.train = std::make_unique<FourImages>(), .test = nullptr, .names = {{7, "seven"}}}; }

ImageExample resized(std::size_t index, const Resizing& resizing) {
  return resized_images(four(), resizing).train->example(index);
}

DecodedImage decoded(const ImageExample& example) {
  const std::span bytes(reinterpret_cast<const std::uint8_t*>(example.encoded.data()), example.encoded.size());
  return decode_image("image", bytes, example.channels);
}

void expect_plain(const DecodedImage& image) {
  for (const std::uint8_t pixel : image.pixels) ASSERT_NEAR(pixel, 100, 1);
}

TEST(ResizedImages, HaveAShorterSideOfTheSize) {
  for (const auto& [index, height, width] : {std::tuple(0, 10, 25), std::tuple(1, 30, 10), std::tuple(3, 10, 10)}) {
    const ImageExample example = resized(static_cast<std::size_t>(index), {.size = 10});
    EXPECT_EQ(example.height, height);
    EXPECT_EQ(example.width, width);
    EXPECT_EQ(example.channels, index == 3 ? 1 : 3);
    const DecodedImage image = decoded(example);
    EXPECT_EQ(image.height, height);
    EXPECT_EQ(image.width, width);
    expect_plain(image);
    EXPECT_EQ(example.encoded.substr(0, 2), "\xff\xd8");  // JPEG
    EXPECT_EQ(example.label, 7);
    EXPECT_EQ(example.filename, "image");
    EXPECT_EQ(example.boxes, FourImages().example(0).boxes);
    EXPECT_NO_THROW(serialize_image_example(example));
  }
}

TEST(ResizedImages, KeepTheBytesOfSmallOnes) {
  EXPECT_EQ(resized(2, {.size = 6}).encoded, FourImages().example(2).encoded);
  EXPECT_EQ(resized(3, {.size = 40}).encoded, FourImages().example(3).encoded);
  EXPECT_NE(resized(3, {.size = 39}).encoded, FourImages().example(3).encoded);
}

TEST(ResizedImages, AreOfThreeChannelsWhereRaw) {
  for (std::size_t index = 0; index < 4; ++index) {
    const ImageExample example = resized(index, {.size = 10, .is_raw = true});
    EXPECT_TRUE(example.is_raw);
    EXPECT_EQ(example.channels, 3);
    ASSERT_EQ(example.encoded.size(), static_cast<std::size_t>(3 * example.height * example.width));
    EXPECT_EQ(example.encoded, std::string(example.encoded.size(), '\x64'));
    EXPECT_EQ(example.height, (std::array{10, 30, 6, 10})[index]);
    EXPECT_NO_THROW(serialize_image_example(example));
  }
}

/// An image with different pixels, or the first half of its file.
class OneImage final : public ImageSource {
 public:
  explicit OneImage(bool is_damaged) : is_damaged_(is_damaged) {}
  std::size_t size() const override { return 1; }
  ImageExample example(std::size_t) const override {
    DecodedImage image = plain_image(40, 40, 3, 0);
    for (std::size_t i = 0; i < image.pixels.size(); ++i) image.pixels[i] = static_cast<std::uint8_t>(i * i / 7);
    std::string png = encode_png(image);
    if (is_damaged_) png.resize(png.size() / 2);
    return {.encoded = png, .height = 40, .width = 40, .filename = "1.png"};
  }
  std::string name(std::size_t) const override { return "photographs/cat/1.png"; }
  std::string key(std::size_t) const override { return ""; }

 private:
  bool is_damaged_;
};

std::unique_ptr<const ImageSource> one(bool is_damaged, const Resizing& resizing) {
  return resized_images({.train = std::make_unique<OneImage>(is_damaged), .test = nullptr, .names = {}}, resizing)
      .train;
}

TEST(ResizedImages, AreEncodedWithTheQuality) {
  const auto num_bytes = [](int quality) {
    return one(false, {.size = 30, .quality = quality})->example(0).encoded.size();
  };
  EXPECT_LT(num_bytes(20), num_bytes(60));
  EXPECT_LT(num_bytes(60), num_bytes(95));
  EXPECT_EQ(num_bytes(95), one(false, {.size = 30})->example(0).encoded.size());
}

TEST(ResizedImages, OfADamagedFileAreRefusedByItsWholeName) {
  for (const Resizing& resizing : {Resizing{.size = 30}, Resizing{.size = 90, .is_raw = true}}) {
    EXPECT_THAT(data_error([&] { one(true, resizing)->example(0); }), ::testing::HasSubstr("photographs/cat/1.png"));
  }
}

TEST(ResizedImages, AreAnotherBuildThanOnesOfTheirOwnSize) {
  const auto key = [](const Resizing& resizing) { return resized_images(four(), resizing).train->key(0); };
  EXPECT_NE(key({.size = 10}), FourImages().key(0));
  EXPECT_NE(key({.size = 10}), key({.size = 11}));
  EXPECT_NE(key({.size = 10}), key({.size = 10, .quality = 90}));
  EXPECT_NE(key({.size = 10}), key({.size = 10, .is_raw = true}));
  EXPECT_EQ(key({.size = 10}), key({.size = 10}));
}

TEST(ResizedImages, OfASetKeepNamesAndWhatIsMissing) {
  const ImageSources sources = resized_images(four(), {.size = 10});
  EXPECT_EQ(sources.train->size(), 4u);
  EXPECT_EQ(sources.test, nullptr);
  EXPECT_EQ(sources.names, (LabelNames{{7, "seven"}}));
}

TEST(ResizedImages, RefuseSizesAndQualitiesThatCannotBe) {
  EXPECT_THROW(resized_images(four(), {.size = 0}), InvalidArgument);
  EXPECT_THROW(resized_images(four(), {.size = 4097}), InvalidArgument);
  EXPECT_THROW(resized_images(four(), {.size = 10, .quality = 0}), InvalidArgument);
  EXPECT_THROW(resized_images(four(), {.size = 10, .quality = 101}), InvalidArgument);
}

}  // namespace
}  // namespace terngrad::resized_images_test
