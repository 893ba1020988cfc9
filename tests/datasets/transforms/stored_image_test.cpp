#include "datasets/transforms/stored_image.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "tests/datasets/image_files.h"

namespace terngrad::stored_image_test {
namespace {

using ::testing::AllOf;
using ::testing::HasSubstr;

Bytes pixels_of(const ImagePart& part, const ImageBox& box) {
  Bytes pixels;
  for (int row = box.top; row < box.top + box.height; ++row) {
    const std::uint8_t* first = part.pixels + (row - part.top) * part.row_bytes + (box.left - part.left) * 3;
    pixels.insert(pixels.end(), first, first + 3 * box.width);
  }
  return pixels;
}

TEST(StoredImage, RawAndPngGiveTheSamePixels) {
  constexpr int kHeight = 9, kWidth = 14;
  const Bytes pixels = counting_bytes(3 * kHeight * kWidth);
  std::vector<Bytes> rows;
  for (int row = 0; row < kHeight; ++row) {
    rows.emplace_back(pixels.begin() + row * 3 * kWidth, pixels.begin() + (row + 1) * 3 * kWidth);
  }
  const Bytes file = png(rows, kWidth);
  const StoredImage raw{.name = "r", .bytes = pixels, .is_raw = true, .height = kHeight, .width = kWidth};
  const StoredImage encoded{.name = "e", .bytes = file};
  const ImageBox box{.top = 3, .left = 2, .height = 4, .width = 7};
  DecodedImage buffer;
  for (const StoredImage& image : {raw, encoded}) {
    const ImageHeader header = read_stored_header(image);
    EXPECT_EQ(header.height, kHeight);
    EXPECT_EQ(header.width, kWidth);
    const ImagePart part = read_stored_part(image, box, buffer);
    EXPECT_EQ(part.channels, 3);
    const Bytes found = pixels_of(part, box);
    for (int row = 0; row < box.height; ++row) {
      for (int i = 0; i < 3 * box.width; ++i) {
        ASSERT_EQ(found[static_cast<std::size_t>(row * 3 * box.width + i)],
                  pixels[static_cast<std::size_t>(((row + box.top) * kWidth + box.left) * 3 + i)]);
      }
    }
  }
}

TEST(StoredImage, GreyBecomesThreeEqualChannels) {
  const Bytes file = jpeg(counting_bytes(16 * 16), 16, 16, {.colours = JCS_GRAYSCALE, .channels = 1});
  const StoredImage image{.name = "grey", .bytes = file};
  DecodedImage buffer;
  const ImageBox box{.top = 2, .left = 3, .height = 5, .width = 6};
  EXPECT_TRUE(read_stored_header(image).is_grey);
  const Bytes pixels = pixels_of(read_stored_part(image, box, buffer), box);
  for (std::size_t i = 0; i < pixels.size(); ++i) ASSERT_EQ(pixels[i], pixels[i / 3 * 3]);
}

TEST(StoredImage, RawImagesOfOtherSizesAreRefused) {
  const Bytes pixels = counting_bytes(3 * 4 * 5);
  const auto refusal = [&](int height, int width) {
    return data_error([&] {
      read_stored_header({.name = "some raw", .bytes = pixels, .is_raw = true, .height = height, .width = width});
    });
  };
  EXPECT_THAT(refusal(4, 6), AllOf(HasSubstr("'some raw'"), HasSubstr("expected 4 x 6 x 3 bytes, found 60")));
  EXPECT_THAT(refusal(0, 5), AllOf(HasSubstr("'some raw'"), HasSubstr("found 0 x 5")));
  EXPECT_THAT(refusal(-4, -5), HasSubstr("sides of 1 to 32768"));
  EXPECT_THAT(refusal(32768, 32768), HasSubstr("up to 67108864 pixels"));
}

TEST(StoredImage, OtherContentIsRefused) {
  EXPECT_THAT(data_error([] { read_stored_header({.name = "nothing"}); }), HasSubstr("'nothing'"));
  const Bytes bytes = counting_bytes(100);
  EXPECT_THAT(data_error([&] { read_stored_header({.name = "noise", .bytes = bytes}); }),
              HasSubstr("'noise': expected a JPEG or PNG image"));
}

}  // namespace
}  // namespace terngrad::stored_image_test
