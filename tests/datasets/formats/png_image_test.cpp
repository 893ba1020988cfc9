#include "datasets/formats/png_image.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <string>

#include "tests/datasets/image_files.h"

namespace terngrad::png_image_test {
namespace {

using ::testing::AllOf;
using ::testing::HasSubstr;

/// Rows of `row_bytes` bytes with different values.
std::vector<Bytes> counting_rows(std::size_t rows, std::size_t row_bytes) {
  const Bytes bytes = counting_bytes(rows * row_bytes);
  std::vector<Bytes> result;
  for (std::size_t row = 0; row < rows; ++row) {
    const auto begin = bytes.begin() + std::ptrdiff_t(row * row_bytes);
    result.emplace_back(begin, begin + std::ptrdiff_t(row_bytes));
  }
  return result;
}
Bytes pixels(const Bytes& bytes, int channels) { return decode_png("some.png", bytes, channels).pixels; }
std::string refusal(const Bytes& bytes) {
  return data_error([&] { decode_png("some.png", bytes, 3); });
}

TEST(PngImage, ColoursAreExact) {
  for (const bool interlaced : {false, true}) {
    const Bytes bytes = png(counting_rows(11, 3 * 7), 7, {.interlaced = interlaced});
    const ImageHeader header = read_png_header("some.png", bytes);
    EXPECT_EQ(header.height, 11);
    EXPECT_EQ(header.width, 7);
    EXPECT_FALSE(header.is_grey);
    EXPECT_EQ(pixels(bytes, 3), counting_bytes(11 * 3 * 7));
    EXPECT_THROW(pixels(bytes, 1), InvalidArgument);
    EXPECT_THROW(pixels(bytes, 2), InvalidArgument);
  }
}

TEST(PngImage, ValuesAreTakenAsTheyAreStored) {
  EXPECT_EQ(pixels(png(counting_rows(5, 3 * 4), 4, {.gamma = 1.0}), 3), counting_bytes(5 * 3 * 4));
}

TEST(PngImage, GreyGivesOneChannelOrThreeEqualOnes) {
  const Bytes bytes = png(counting_rows(5, 6), 6, {.colour_type = PNG_COLOR_TYPE_GRAY});
  EXPECT_TRUE(read_png_header("some.png", bytes).is_grey);
  EXPECT_EQ(pixels(bytes, 1), counting_bytes(30));
  const Bytes rgb = pixels(bytes, 3);
  for (std::size_t i = 0; i < rgb.size(); ++i) ASSERT_EQ(rgb[i], counting_bytes(30)[i / 3]);
}

TEST(PngImage, OtherDepthsBecomeEightBits) {
  // 16 bits: 0x1234 / 257 rounded, 0xffff, 0.
  EXPECT_EQ(pixels(png({{0x12, 0x34, 0xff, 0xff, 0, 0}}, 3, {.colour_type = PNG_COLOR_TYPE_GRAY, .bit_depth = 16}), 1),
            (Bytes{0x12, 0xff, 0}));
  EXPECT_EQ(pixels(png({{0b10110000}}, 4, {.colour_type = PNG_COLOR_TYPE_GRAY, .bit_depth = 1}), 1),
            (Bytes{255, 0, 255, 255}));
  EXPECT_EQ(pixels(png({{0b00011011}}, 4, {.colour_type = PNG_COLOR_TYPE_GRAY, .bit_depth = 2}), 1),
            (Bytes{0, 85, 170, 255}));
}

TEST(PngImage, PaletteAndAlpha) {
  const Bytes indexed =
      png({{2, 0, 1}}, 3, {.colour_type = PNG_COLOR_TYPE_PALETTE, .palette = {{1, 2, 3}, {4, 5, 6}, {7, 8, 9}}});
  EXPECT_FALSE(read_png_header("some.png", indexed).is_grey);
  EXPECT_EQ(pixels(indexed, 3), (Bytes{7, 8, 9, 1, 2, 3, 4, 5, 6}));
  EXPECT_EQ(pixels(png({{10, 20, 30, 0}}, 1, {.colour_type = PNG_COLOR_TYPE_RGB_ALPHA}), 3), (Bytes{10, 20, 30}));
  EXPECT_EQ(pixels(png({{10, 0, 20, 255}}, 2, {.colour_type = PNG_COLOR_TYPE_GRAY_ALPHA}), 1), (Bytes{10, 20}));
}

TEST(PngImage, EveryTruncationIsRefused) {
  const Bytes bytes = png(counting_rows(16, 3 * 16), 16);
  for (std::size_t length = 0; length < bytes.size(); ++length) {
    const Bytes cut(bytes.begin(), bytes.begin() + std::ptrdiff_t(length));
    ASSERT_THAT(refusal(cut), HasSubstr("'some.png': expected an intact PNG image, found: ")) << length;
  }
}

TEST(PngImage, FlippedByteIsRefused) {
  const Bytes bytes = png(counting_rows(16, 3 * 16), 16);
  // All bytes of the three chunks are covered by a checksum or belong to one.
  for (std::size_t position = 0; position < bytes.size(); ++position) {
    Bytes damaged = bytes;
    damaged[position] ^= 0x55;
    ASSERT_THAT(refusal(damaged), HasSubstr("some.png")) << position;
  }
}

TEST(PngImage, ImpossibleSizesAreRefused) {
  Bytes bytes = png(counting_rows(4, 12), 4);
  const auto with_size = [&](std::uint8_t height, std::uint8_t width) {
    // After the 8-byte signature: length, "IHDR", width, height, 5 more bytes, CRC-32.
    bytes[18] = width;
    bytes[22] = height;
    const auto crc = static_cast<std::uint32_t>(crc32(0, bytes.data() + 12, 17));
    for (std::size_t i = 0; i < 4; ++i) bytes[29 + i] = static_cast<std::uint8_t>(crc >> (24 - 8 * i));
    return bytes;
  };
  EXPECT_THAT(refusal(with_size(0x7f, 0x7f)), AllOf(HasSubstr("some.png"), HasSubstr("found 32516 x 32516")));
  EXPECT_THAT(refusal(with_size(0, 0xf0)), AllOf(HasSubstr("some.png"), HasSubstr("IHDR")));
}

}  // namespace
}  // namespace terngrad::png_image_test
