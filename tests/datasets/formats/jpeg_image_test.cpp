#include "datasets/formats/jpeg_image.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <limits>
#include <sstream>
#include <string>

#include "datasets/formats/compressed_file.h"
#include "kernels/random/philox.h"
#include "tests/datasets/image_files.h"
#include "tests/datasets/imagenet_sample.h"

namespace terngrad::jpeg_image_test {
namespace {

using ::testing::AllOf;
using ::testing::HasSubstr;

std::string refusal(const Bytes& bytes) {
  return data_error([&] { decode_jpeg("some.jpg", bytes, 3); });
}

void expect_near(const Bytes& found, const Bytes& expected, int tolerance) {
  ASSERT_EQ(found.size(), expected.size());
  for (std::size_t i = 0; i < found.size(); ++i) ASSERT_NEAR(int{found[i]}, int{expected[i]}, tolerance) << i;
}

TEST(JpegImage, DecodesColours) {
  const Bytes pixels = smooth_pixels(21, 34, 3);
  for (const bool progressive : {false, true}) {
    const Bytes bytes = jpeg(pixels, 21, 34, {.progressive = progressive});
    const ImageHeader header = read_jpeg_header("some.jpg", bytes);
    EXPECT_EQ(header.height, 21);
    EXPECT_EQ(header.width, 34);
    EXPECT_FALSE(header.is_grey);
    const DecodedImage image = decode_jpeg("some.jpg", bytes, 3);
    EXPECT_EQ(image.height, 21);
    EXPECT_EQ(image.width, 34);
    EXPECT_EQ(image.channels, 3);
    expect_near(image.pixels, pixels, 6);
    EXPECT_THROW(decode_jpeg("some.jpg", bytes, 1), InvalidArgument);
    EXPECT_THROW(decode_jpeg("some.jpg", bytes, 4), InvalidArgument);
  }
}

TEST(JpegImage, GreyGivesOneChannelOrThreeEqualOnes) {
  const Bytes pixels = smooth_pixels(9, 16, 1);
  const Bytes bytes = jpeg(pixels, 9, 16, {.colours = JCS_GRAYSCALE, .channels = 1});
  EXPECT_TRUE(read_jpeg_header("some.jpg", bytes).is_grey);
  const DecodedImage grey = decode_jpeg("some.jpg", bytes, 1);
  expect_near(grey.pixels, pixels, 3);
  const DecodedImage rgb = decode_jpeg("some.jpg", bytes, 3);
  for (std::size_t i = 0; i < rgb.pixels.size(); ++i) ASSERT_EQ(rgb.pixels[i], grey.pixels[i / 3]);
}

TEST(JpegImage, InksBecomeLight) {
  // libjpeg writes CMYK with Adobe's marker, which means inverted values: 255 is no ink.
  Bytes cmyk;
  for (int i = 0; i < 64; ++i) cmyk.insert(cmyk.end(), {255, 128, 0, 200});
  Bytes bytes = jpeg(cmyk, 8, 8, {.colours = JCS_CMYK, .channels = 4, .quality = 100});
  DecodedImage image = decode_jpeg("some.jpg", bytes, 3);
  expect_near({image.pixels.begin(), image.pixels.begin() + 3}, {200, 100, 0}, 2);
  // Without the marker values are not inverted.
  const std::string text(bytes.begin(), bytes.end());
  const std::size_t adobe = text.find("Adobe");
  ASSERT_NE(adobe, std::string::npos);
  bytes[adobe] = 'X';
  image = decode_jpeg("some.jpg", bytes, 3);
  expect_near({image.pixels.begin(), image.pixels.begin() + 3}, {0, (255 - 128) * 55 / 255, 55}, 2);
}

TEST(JpegImage, EveryTruncationIsRefused) {
  for (const bool progressive : {false, true}) {
    const Bytes bytes = jpeg(counting_bytes(3 * 24 * 24), 24, 24, {.progressive = progressive});
    for (std::size_t length = 0; length < bytes.size(); ++length) {
      const Bytes cut(bytes.begin(), bytes.begin() + std::ptrdiff_t(length));
      ASSERT_THAT(refusal(cut), HasSubstr("'some.jpg': expected an intact JPEG image, found: ")) << length;
    }
  }
}

TEST(JpegImage, DamageNeverCrashes) {
  const Bytes bytes = jpeg(counting_bytes(3 * 24 * 24), 24, 24);
  int refused = 0;
  for (std::size_t position = 0; position < bytes.size(); ++position) {
    Bytes damaged = bytes;
    damaged[position] ^= 0xff;
    try {
      decode_jpeg("some.jpg", damaged, 3);  // a flipped coefficient is still a valid image
    } catch (const DataError& error) {
      ++refused;
      ASSERT_THAT(error.what(), HasSubstr("some.jpg")) << position;
    }
  }
  EXPECT_GT(refused, 100);
}

TEST(JpegImage, OtherContentIsRefused) {
  EXPECT_THAT(refusal({}), HasSubstr("some.jpg"));
  EXPECT_THAT(refusal(counting_bytes(1000)), HasSubstr("expected an intact JPEG image"));
}

TEST(JpegImage, ImpossibleSizesAreRefused) {
  Bytes bytes = jpeg(smooth_pixels(8, 8, 3), 8, 8);
  // Start of frame: marker, length, precision, height, width.
  std::size_t frame = 0;
  while (bytes[frame] != 0xff || bytes[frame + 1] != 0xc0) ++frame;
  bytes[frame + 5] = bytes[frame + 7] = 0x7f;  // 32520 x 32520
  EXPECT_THAT(refusal(bytes), AllOf(HasSubstr("some.jpg"), HasSubstr("up to 67108864 pixels, found 32520 x 32520")));
  bytes[frame + 5] = 0xf0;
  EXPECT_THAT(refusal(bytes), HasSubstr("expected sides up to 32768"));
}

TEST(JpegImage, OddButWholeFilesAreRead) {
  const Bytes bytes = jpeg(smooth_pixels(8, 8, 3), 8, 8);
  Bytes odd = bytes;
  odd.insert(odd.begin() + 2, {0, 0, 0});  // extraneous bytes before the second marker
  EXPECT_EQ(decode_jpeg("some.jpg", odd, 3).pixels, decode_jpeg("some.jpg", bytes, 3).pixels);
}

/// Offset of the coded pixels, after the first start of scan.
std::ptrdiff_t scan_begin(const Bytes& bytes) {
  std::size_t scan = 0;
  while (bytes[scan] != 0xff || bytes[scan + 1] != 0xda) ++scan;
  return static_cast<std::ptrdiff_t>(scan + 2 + bytes[scan + 2] * 256u + bytes[scan + 3]);
}

TEST(JpegImage, BytesBehindAScanAreDamageUnlessTheyAreFew) {
  for (const bool progressive : {false, true}) {
    const Bytes bytes = jpeg(counting_bytes(3 * 24 * 24), 24, 24, {.progressive = progressive});
    Bytes zeros = bytes;  // decode as pixels, so the original data is left over
    zeros.insert(zeros.begin() + scan_begin(bytes), 2000, 0);
    EXPECT_THAT(refusal(zeros), AllOf(HasSubstr("some.jpg"), HasSubstr("extraneous bytes")));
    for (const int padding : {64, 100}) {  // the decoder reads a few bytes ahead
      Bytes padded = bytes;
      padded.insert(padded.end() - 2, static_cast<std::size_t>(padding), 0);  // before the end marker
      if (padding == 64) {
        EXPECT_EQ(decode_jpeg("some.jpg", padded, 3).pixels, decode_jpeg("some.jpg", bytes, 3).pixels);
      } else {
        EXPECT_THAT(refusal(padded), HasSubstr("extraneous bytes"));
      }
    }
  }
}

// A flipped bit shifts the codes after it; libjpeg shows it only by a few extra bytes.
TEST(JpegImage, FewBytesBehindAScanAreDamageUnlessTheyArePadding) {
  const Bytes bytes = jpeg(counting_bytes(3 * 24 * 24), 24, 24);
  const auto padded = [&](int count, std::uint8_t value) {
    Bytes result = bytes;
    result.insert(result.end() - 2, static_cast<std::size_t>(count), value);  // before the end marker
    return result;
  };
  for (const std::uint8_t padding : Bytes{0x00, 0xff}) {
    EXPECT_EQ(decode_jpeg("some.jpg", padded(30, padding), 3).pixels, decode_jpeg("some.jpg", bytes, 3).pixels);
  }
  for (const int count : {10, 30, 60}) {
    EXPECT_THAT(refusal(padded(count, 0x5a)), HasSubstr("extraneous bytes before marker")) << count;
  }
}

/// Pixels of a box in the decoded whole image.
Bytes cut_out(const DecodedImage& whole, const ImageBox& box) {
  Bytes pixels;
  for (int row = box.top; row < box.top + box.height; ++row) {
    const auto first = whole.pixels.begin() + (std::ptrdiff_t{row} * whole.width + box.left) * 3;
    pixels.insert(pixels.end(), first, first + std::ptrdiff_t{3} * box.width);
  }
  return pixels;
}

/// Box number `i` of an image: first the whole image and its corners, then random boxes.
ImageBox drawn_box(std::uint64_t i, int height, int width) {
  if (i == 0) return {.top = 0, .left = 0, .height = height, .width = width};
  if (i == 1) return {.top = 0, .left = 0, .height = 1, .width = 1};
  if (i == 2) return {.top = height - 1, .left = width - 1, .height = 1, .width = 1};
  const DrawKey key{.seed = 5, .step = 0, .worker = 0, .purpose = DrawPurpose::kSyntheticData};
  const auto below = [&](std::uint64_t j, int count) {
    return static_cast<int>(draw32(key, 4 * i + j) % static_cast<std::uint32_t>(count));
  };
  ImageBox box{.top = below(0, height), .left = below(1, width)};
  box.height = 1 + below(2, height - box.top);
  box.width = 1 + below(3, i % 3 == 0 ? std::min(4, width - box.left) : width - box.left);  // some narrow ones
  return box;
}

void expect_boxes_of_the_whole(const std::string& name, const Bytes& bytes, std::uint64_t num_boxes) {
  const DecodedImage whole = decode_jpeg(name, bytes, 3);
  DecodedImage part;
  for (std::uint64_t i = 0; i < num_boxes; ++i) {
    const ImageBox box = drawn_box(i, whole.height, whole.width);
    decode_jpeg_box(name, bytes, box, part);
    ASSERT_EQ(part.height, box.height);
    ASSERT_EQ(part.width, box.width);
    ASSERT_EQ(part.channels, 3);
    ASSERT_TRUE(part.pixels == cut_out(whole, box))
        << name << ": " << box.height << " x " << box.width << " from " << box.top << ", " << box.left;
  }
}

TEST(JpegImage, ABoxHasThePixelsOfTheWhole) {
  constexpr int kSamplings[][2] = {{1, 1}, {2, 1}, {1, 2}, {2, 2}, {4, 1}, {4, 2}, {3, 1}, {1, 4}};
  for (const auto& sampling : kSamplings) {
    for (const bool progressive : {false, true}) {
      for (const int restart_rows : {0, 1}) {
        const Bytes bytes = jpeg(counting_bytes(3 * 75 * 109), 75, 109,
                                 {.progressive = progressive,
                                  .horizontal_sampling = sampling[0],
                                  .vertical_sampling = sampling[1],
                                  .restart_rows = restart_rows});
        expect_boxes_of_the_whole(std::to_string(sampling[0]) + " x " + std::to_string(sampling[1]), bytes, 60);
      }
    }
  }
}

// libjpeg upsamples images of few columns differently; narrow boxes of wider images must not be affected.
TEST(JpegImage, NarrowBoxesHaveThePixelsOfTheWhole) {
  for (const int image_width : {1, 2, 3, 4, 5, 6, 15, 16, 17, 18, 40}) {
    const Bytes bytes =
        jpeg(counting_bytes(3 * 20 * static_cast<std::size_t>(image_width)), 20, image_width);  // chroma is halved
    const DecodedImage whole = decode_jpeg("narrow", bytes, 3);
    DecodedImage part;
    for (int width = 1; width <= std::min(6, image_width); ++width) {
      for (int left = 0; left + width <= image_width; ++left) {
        const ImageBox box{.top = 3, .left = left, .height = 12, .width = width};
        decode_jpeg_box("narrow", bytes, box, part);
        ASSERT_TRUE(part.pixels == cut_out(whole, box)) << width << " from " << left << " of " << image_width;
      }
    }
  }
}

TEST(JpegImage, ABoxOfGreyOrInksHasThePixelsOfTheWhole) {
  for (const bool progressive : {false, true}) {
    expect_boxes_of_the_whole(
        "grey",
        jpeg(counting_bytes(75 * 109), 75, 109, {.colours = JCS_GRAYSCALE, .channels = 1, .progressive = progressive}),
        100);
    expect_boxes_of_the_whole(
        "cmyk",
        jpeg(counting_bytes(4 * 75 * 109), 75, 109, {.colours = JCS_CMYK, .channels = 4, .progressive = progressive}),
        100);
  }
}

TEST(JpegImage, ABoxOutsideIsRefused) {
  const Bytes bytes = jpeg(smooth_pixels(8, 9, 3), 8, 9);
  DecodedImage part;
  for (const ImageBox& box :
       {ImageBox{0, 0, 9, 9}, ImageBox{0, 0, 8, 10}, ImageBox{-1, 0, 2, 2}, ImageBox{0, -1, 2, 2}, ImageBox{8, 0, 1, 1},
        ImageBox{0, 0, 0, 1}, ImageBox{0, 0, 1, 0}, ImageBox{1, 1, 1, std::numeric_limits<int>::max()}}) {
    EXPECT_THROW(decode_jpeg_box("some.jpg", bytes, box, part), InvalidArgument);
  }
  EXPECT_NO_THROW(decode_jpeg_box("some.jpg", bytes, {0, 0, 8, 9}, part));
}

TEST(JpegImage, DamageInABoxNeverCrashes) {
  for (const bool progressive : {false, true}) {
    const Bytes bytes = jpeg(counting_bytes(3 * 40 * 40), 40, 40, {.progressive = progressive});
    DecodedImage part;
    int refused = 0;
    for (std::size_t position = 0; position < bytes.size(); ++position) {
      Bytes damaged = bytes;
      damaged[position] ^= 0xff;
      try {
        decode_jpeg_box("some.jpg", damaged, {20, 17, 9, 5}, part);
      } catch (const DataError& error) {
        ++refused;
        ASSERT_THAT(error.what(), HasSubstr("some.jpg")) << position;
      } catch (const InvalidArgument&) {  // the header has another size
      }
    }
    EXPECT_GT(refused, 100);
    const Bytes half(bytes.begin(), bytes.begin() + static_cast<std::ptrdiff_t>(bytes.size() / 3));
    EXPECT_THAT(data_error([&] {
                  decode_jpeg_box("some.jpg", half, {30, 0, 10, 10}, part);
                }),
                HasSubstr("'some.jpg': expected an intact JPEG image, found: "));
  }
}

TEST(JpegImage, ABoxOfRealPhotographsHasThePixelsOfTheWhole) {
  const std::vector<std::filesystem::path> files = imagenet_sample();
  if (files.empty()) GTEST_SKIP() << "no images in " << kImageNetSample;
  EXPECT_EQ(files.size(), kImageNetSampleImages);
  for (const std::filesystem::path& file : files) expect_boxes_of_the_whole(file.string(), read_data_file(file), 12);
}

TEST(JpegImage, RealPhotographsDecode) {
  const std::filesystem::path folder = "../shared/data/imagenet-sample";
  if (!std::filesystem::exists(folder)) GTEST_SKIP() << "no images in " << folder;
  std::ifstream table(folder / "images.tsv");
  std::string line;
  std::getline(table, line);
  int images = 0, grey = 0;
  while (std::getline(table, line)) {
    std::vector<std::string> fields;
    std::istringstream row(line);
    for (std::string field; std::getline(row, field, '\t');) fields.push_back(field);
    ASSERT_GE(fields.size(), 8u);
    const Bytes bytes = read_data_file(folder / fields[0]);
    const DecodedImage image = decode_jpeg(fields[0], bytes, 3);
    EXPECT_EQ(image.width, std::atoi(fields[5].c_str())) << line;
    EXPECT_EQ(image.height, std::atoi(fields[6].c_str())) << line;
    const bool is_grey = read_jpeg_header(fields[0], bytes).is_grey;
    EXPECT_EQ(is_grey, fields[7] == "1") << line;
    ++images;
    grey += is_grey ? 1 : 0;
  }
  EXPECT_EQ(images, 39);
  EXPECT_EQ(grey, 5);
}

}  // namespace
}  // namespace terngrad::jpeg_image_test
