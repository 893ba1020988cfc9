#include "datasets/formats/jpeg_encoder.h"

#include <gtest/gtest.h>

#include <cstdint>
#include <cstdlib>
#include <span>
#include <string>

#include "datasets/formats/jpeg_image.h"
#include "kernels/runtime/errors.h"
#include "tests/datasets/record_files.h"

namespace terngrad::jpeg_encoder_test {
namespace {

/// Smooth, as photographs: chroma subsampling loses little.
DecodedImage ramp(int height, int width, int channels) {
  DecodedImage image = plain_image(height, width, channels, 0);
  for (int y = 0; y < height; ++y) {
    for (int x = 0; x < width; ++x) {
      for (int c = 0; c < channels; ++c) {
        const auto at = static_cast<std::size_t>((y * width + x) * channels + c);
        image.pixels[at] = static_cast<std::uint8_t>(20 + 3 * y + 2 * x + 10 * c);
      }
    }
  }
  return image;
}

DecodedImage decoded(const std::string& jpeg, int channels) {
  return decode_jpeg("image", std::span(reinterpret_cast<const std::uint8_t*>(jpeg.data()), jpeg.size()), channels);
}

int max_difference(const DecodedImage& a, const DecodedImage& b) {
  int max = 0;
  for (std::size_t i = 0; i < a.pixels.size(); ++i) max = std::max(max, std::abs(a.pixels[i] - b.pixels[i]));
  return max;
}

TEST(JpegEncoder, WritesWhatTheDecoderReads) {
  for (const int channels : {1, 3}) {
    const DecodedImage image = ramp(31, 17, channels);
    const DecodedImage back = decoded(encode_jpeg(image, 95), channels);
    ASSERT_EQ(back.height, 31);
    ASSERT_EQ(back.width, 17);
    ASSERT_EQ(back.pixels.size(), image.pixels.size());
    EXPECT_LE(max_difference(image, back), 6) << channels;
  }
  EXPECT_EQ(decoded(encode_jpeg(plain_image(1, 1, 3, 77), 100), 3).pixels, (Bytes{77, 77, 77}));
}

TEST(JpegEncoder, KeepsMoreAtAHigherQuality) {
  DecodedImage image = ramp(32, 32, 1);
  for (std::size_t i = 0; i < image.pixels.size(); i += 3) image.pixels[i] ^= 0x1f;
  const std::string good = encode_jpeg(image, 95);
  const std::string poor = encode_jpeg(image, 20);
  EXPECT_GT(good.size(), poor.size());
  EXPECT_LT(max_difference(image, decoded(good, 1)), max_difference(image, decoded(poor, 1)));
  EXPECT_EQ(good, encode_jpeg(image, 95));
}

TEST(JpegEncoder, RefusesWhatIsNoImage) {
  EXPECT_THROW(encode_jpeg(plain_image(2, 2, 2, 0), 95), InvalidArgument);
  EXPECT_THROW(encode_jpeg(plain_image(0, 2, 3, 0), 95), InvalidArgument);
  EXPECT_THROW(encode_jpeg({.height = 2, .width = 2, .channels = 3, .pixels = Bytes(11)}, 95), InvalidArgument);
  for (const int quality : {0, 101}) EXPECT_THROW(encode_jpeg(plain_image(2, 2, 3, 0), quality), InvalidArgument);
}

}  // namespace
}  // namespace terngrad::jpeg_encoder_test
