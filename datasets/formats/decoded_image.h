// What image decoders give.
#pragma once

#include <cstddef>
#include <cstdint>
#include <vector>

namespace terngrad {

/// Limits of every decoder: a forged file of a few bytes must not ask for gigabytes.
inline constexpr std::int64_t kMaxImageSide = 32'768;
inline constexpr std::int64_t kMaxImagePixels = std::int64_t{1} << 26;

/// What an image file says about itself.
struct ImageHeader {
  int height = 0;
  int width = 0;
  bool is_grey = false;  // one channel; otherwise it has colours
};

/// An image of bytes.
struct DecodedImage {
  int height = 0;
  int width = 0;
  int channels = 0;                  // 1: grey, 3: red, green, blue
  std::vector<std::uint8_t> pixels;  // [height, width, channels]
};

}  // namespace terngrad
