#include "datasets/transforms/resize.h"

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <vector>

#include "datasets/transforms/resize_axis.h"
#include "datasets/transforms/row_resizer.h"
#include "kernels/runtime/errors.h"

namespace terngrad {
namespace {

/// The axis of a side: what it becomes when the shorter side becomes `size`, cut to its middle.
ResizeAxis make_square_axis(int side, int shorter, int size) {
  const int resized = static_cast<int>(std::int64_t{side} * size / shorter);
  ResizeAxis axis;
  make_resize_axis(ResizeMethod::kAntialiased,
                   {.from = side, .to = resized, .first = (resized - size) / 2, .count = size}, axis);
  return axis;
}

void check(const DecodedImage& image, int size, std::size_t values) {
  TERNGRAD_REQUIRE(size >= 1 && size <= kMaxResizedSide, "[resize_to_square] size must be in [1, ", kMaxResizedSide,
                   "], got ", size);
  TERNGRAD_REQUIRE(image.height >= 1 && image.height <= kMaxImageSide && image.width >= 1 &&
                       image.width <= kMaxImageSide && (image.channels == 1 || image.channels == 3),
                   "[resize_to_square] image must have 1 to ", kMaxImageSide,
                   " pixels a side and 1 or 3 channels, got ", image.height, " x ", image.width, " x ", image.channels);
  const auto product = [](int a, int b, int c) {
    return static_cast<std::size_t>(a) * static_cast<std::size_t>(b) * static_cast<std::size_t>(c);
  };
  TERNGRAD_REQUIRE(image.pixels.size() == product(image.height, image.width, image.channels),
                   "[resize_to_square] image must hold ", product(image.height, image.width, image.channels),
                   " bytes, holds ", image.pixels.size());
  TERNGRAD_REQUIRE(values == product(size, size, image.channels), "[resize_to_square] square must hold ",
                   product(size, size, image.channels), " values, holds ", values);
}

}  // namespace

void resize_to_square(const DecodedImage& image, int size, std::span<float> square) {
  check(image, size, square.size());
  const int shorter = std::min(image.height, image.width);
  const ResizeAxis rows = make_square_axis(image.height, shorter, size);
  const ResizeAxis columns = make_square_axis(image.width, shorter, size);
  const ImagePart part{.pixels = image.pixels.data(),
                       .row_bytes = std::ptrdiff_t{image.width} * image.channels,
                       .channels = image.channels};
  ResizeScratch scratch;
  RowResizer resizer(part, rows, columns, scratch);
  const auto row_values = static_cast<std::size_t>(size) * static_cast<std::size_t>(image.channels);
  for (int y = 0; y < size; ++y) {
    float* const out = square.data() + static_cast<std::size_t>(y) * row_values;
    resizer.write_row(y, out);
    for (std::size_t i = 0; i < row_values; ++i) out[i] = (out[i] / 255.0f - 0.5f) * 2.0f;
  }
}

}  // namespace terngrad
