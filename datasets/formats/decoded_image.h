// DecodedImage: result of image decoders.
#pragma once

#include <cstddef>
#include <cstdint>
#include <vector>

#include "kernels/runtime/errors.h"

namespace terngrad {

/// Limits of all decoders, so that a small forged file cannot make them allocate gigabytes.
inline constexpr std::int64_t kMaxImageSide = 32'768;
inline constexpr std::int64_t kMaxImagePixels = std::int64_t{1} << 26;

/// Properties in the header of an image file.
struct ImageHeader {
  int height = 0;
  int width = 0;
  bool is_grey = false;  // one channel; otherwise colours
};

/// A rectangle of an image, in pixels from the top left.
struct ImageBox {
  int top = 0;
  int left = 0;
  int height = 0;
  int width = 0;
  friend bool operator==(const ImageBox&, const ImageBox&) = default;
};

/// @throws InvalidArgument unless the box is not empty and lies inside an image of these sides
inline void check_image_box(const char* caller, const ImageBox& box, int height, int width) {
  TERNGRAD_REQUIRE(box.top >= 0 && box.left >= 0 && box.height >= 1 && box.width >= 1 &&
                       box.height <= height - box.top && box.width <= width - box.left,
                   "[", caller, "] the box must have pixels and lie inside the image of ", height, " x ", width,
                   ", got ", box.height, " x ", box.width, " from ", box.top, ", ", box.left);
}

/// An 8-bit image.
struct DecodedImage {
  int height = 0;
  int width = 0;
  int channels = 0;                  // 1: grey, 3: red, green, blue
  std::vector<std::uint8_t> pixels;  // [height, width, channels]
};

/// @throws InvalidArgument unless the image has sides of 1 to kMaxImageSide pixels, 1 or 3 channels and a byte for each
/// value
inline void check_decoded_image(const char* caller, const DecodedImage& image) {
  TERNGRAD_REQUIRE(image.height >= 1 && image.height <= kMaxImageSide && image.width >= 1 &&
                       image.width <= kMaxImageSide && (image.channels == 1 || image.channels == 3),
                   "[", caller, "] image must have 1 to ", kMaxImageSide, " pixels a side and 1 or 3 channels, got ",
                   image.height, " x ", image.width, " x ", image.channels);
  const std::size_t expected = static_cast<std::size_t>(image.height) * static_cast<std::size_t>(image.width) *
                               static_cast<std::size_t>(image.channels);
  TERNGRAD_REQUIRE(image.pixels.size() == expected, "[", caller, "] image must hold ", expected, " bytes, holds ",
                   image.pixels.size());
}

}  // namespace terngrad
