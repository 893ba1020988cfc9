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

/// New length of a side when the shorter side becomes `size`.
int resized_side(int side, int shorter, int size) { return static_cast<int>(std::int64_t{side} * size / shorter); }

/// The axis of a side, cropped to its `count` central pixels.
ResizeAxis make_axis(int side, int resized, int count) {
  ResizeAxis axis;
  make_resize_axis(ResizeMethod::kAntialiased,
                   {.from = side, .to = resized, .first = (resized - count) / 2, .count = count}, axis);
  return axis;
}

std::size_t num_values(int height, int width, int channels) {
  return static_cast<std::size_t>(height) * static_cast<std::size_t>(width) * static_cast<std::size_t>(channels);
}

void check(const char* caller, const DecodedImage& image, int size) {
  TERNGRAD_REQUIRE(size >= 1 && size <= kMaxResizedSide, "[", caller, "] size must be in [1, ", kMaxResizedSide,
                   "], got ", size);
  check_decoded_image(caller, image);
}

/// Calls use_row(y, values) with every row of the resized image, with values in 0 to 255.
template <class UseRow>
void for_each_row(const DecodedImage& image, const ResizeAxis& rows, const ResizeAxis& columns, const UseRow& use_row) {
  const ImagePart part{.pixels = image.pixels.data(),
                       .row_bytes = std::ptrdiff_t{image.width} * image.channels,
                       .channels = image.channels};
  ResizeScratch scratch;
  RowResizer resizer(part, rows, columns, scratch);
  std::vector<float> row(num_values(1, columns.num_targets(), image.channels));
  for (int y = 0; y < rows.num_targets(); ++y) {
    resizer.write_row(y, row.data());
    use_row(static_cast<std::size_t>(y), std::span<const float>(row));
  }
}

}  // namespace

void resize_to_square(const DecodedImage& image, int size, std::span<float> square) {
  check("resize_to_square", image, size);
  const std::size_t expected = num_values(size, size, image.channels);
  TERNGRAD_REQUIRE(square.size() == expected, "[resize_to_square] square must hold ", expected, " values, holds ",
                   square.size());
  const int shorter = std::min(image.height, image.width);
  const ResizeAxis rows = make_axis(image.height, resized_side(image.height, shorter, size), size);
  const ResizeAxis columns = make_axis(image.width, resized_side(image.width, shorter, size), size);
  for_each_row(image, rows, columns, [&](std::size_t y, std::span<const float> row) {
    float* const out = square.data() + y * row.size();
    for (std::size_t i = 0; i < row.size(); ++i) out[i] = (row[i] / 255.0f - 0.5f) * 2.0f;
  });
}

DecodedImage resize_shorter_side(const DecodedImage& image, int size) {
  check("resize_shorter_side", image, size);
  const int shorter = std::min(image.height, image.width);
  // At most 2^15 * 2^12: no overflow.
  DecodedImage resized{.height = resized_side(image.height, shorter, size),
                       .width = resized_side(image.width, shorter, size),
                       .channels = image.channels,
                       .pixels = {}};
  TERNGRAD_REQUIRE(std::max(resized.height, resized.width) <= kMaxImageSide, "[resize_shorter_side] an image of ",
                   image.height, " x ", image.width, " would have ", std::max(resized.height, resized.width),
                   " pixels a side, at most ", kMaxImageSide, " are accepted");
  resized.pixels.resize(num_values(resized.height, resized.width, resized.channels));
  const ResizeAxis rows = make_axis(image.height, resized.height, resized.height);
  const ResizeAxis columns = make_axis(image.width, resized.width, resized.width);
  for_each_row(image, rows, columns, [&](std::size_t y, std::span<const float> row) {
    std::uint8_t* const out = resized.pixels.data() + y * row.size();
    for (std::size_t i = 0; i < row.size(); ++i) {
      out[i] = static_cast<std::uint8_t>(std::clamp(row[i] + 0.5f, 0.0f, 255.0f));
    }
  });
  return resized;
}

}  // namespace terngrad
