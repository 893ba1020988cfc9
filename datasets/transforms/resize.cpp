#include "datasets/transforms/resize.h"

#include <algorithm>
#include <cmath>
#include <cstddef>
#include <cstdint>
#include <vector>

#include "kernels/runtime/errors.h"

namespace terngrad {
namespace {

/// The source pixels that one target pixel is made of: `count` from `first`, with weights from `first_weight`.
struct Taps {
  int first = 0;
  int count = 0;
  std::size_t first_weight = 0;
};

struct Axis {
  std::vector<Taps> taps;  // of each target pixel kept
  std::vector<float> weights;
};

/// @param from   source pixels
/// @param to     target pixels of the whole axis
/// @param first  target pixel kept first
/// @param count  target pixels kept
Axis make_axis(int from, int to, int first, int count) {
  const double ratio = static_cast<double>(from) / static_cast<double>(to);
  const double reach = std::max(1.0, ratio);
  Axis axis;
  for (int i = first; i < first + count; ++i) {
    const double centre = (i + 0.5) * ratio;
    const int begin = std::max(0, static_cast<int>(std::floor(centre - reach)));
    const int end = std::min(from, static_cast<int>(std::floor(centre + reach)) + 1);
    double sum = 0;
    for (int j = begin; j < end; ++j) sum += std::max(0.0, 1.0 - std::fabs(j + 0.5 - centre) / reach);
    axis.taps.push_back({begin, end - begin, axis.weights.size()});
    for (int j = begin; j < end; ++j) {
      axis.weights.push_back(static_cast<float>(std::max(0.0, 1.0 - std::fabs(j + 0.5 - centre) / reach) / sum));
    }
  }
  return axis;
}

/// The axis of a side: what it becomes when the shorter side becomes `size`, cut to its middle.
Axis make_square_axis(int side, int shorter, int size) {
  const int resized = static_cast<int>(std::int64_t{side} * size / shorter);
  return make_axis(side, resized, (resized - size) / 2, size);
}

/// One source row, resized along its columns.
void resize_row(const std::uint8_t* row, int channels, const Axis& axis, float* out) {
  for (const Taps& taps : axis.taps) {
    const float* weights = axis.weights.data() + taps.first_weight;
    const std::uint8_t* pixels = row + std::ptrdiff_t{taps.first} * channels;
    for (int channel = 0; channel < channels; ++channel) {
      float sum = 0;
      for (int j = 0; j < taps.count; ++j) sum += weights[j] * static_cast<float>(pixels[j * channels + channel]);
      *out++ = sum;
    }
  }
}

void check(const DecodedImage& image, int size, std::size_t values) {
  TERNGRAD_REQUIRE(size >= 1 && size <= kMaxResizedSide, "[resize_to_square] size must be in [1, ", kMaxResizedSide,
                   "], got ", size);
  TERNGRAD_REQUIRE(image.height >= 1 && image.height <= kMaxImageSide && image.width >= 1 &&
                       image.width <= kMaxImageSide && image.channels >= 1,
                   "[resize_to_square] image must have 1 to ", kMaxImageSide, " pixels a side, got ", image.height,
                   " x ", image.width, " x ", image.channels);
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
  const Axis rows = make_square_axis(image.height, shorter, size);
  const Axis columns = make_square_axis(image.width, shorter, size);
  const auto row_values = static_cast<std::size_t>(size) * static_cast<std::size_t>(image.channels);
  const auto row_bytes = static_cast<std::size_t>(image.width) * static_cast<std::size_t>(image.channels);
  // Source rows that any kept target row needs, resized along the columns.
  const int first_row = rows.taps.front().first;
  const int last_row = rows.taps.back().first + rows.taps.back().count;
  std::vector<float> resized(static_cast<std::size_t>(last_row - first_row) * row_values);
  for (int row = first_row; row < last_row; ++row) {
    resize_row(image.pixels.data() + static_cast<std::size_t>(row) * row_bytes, image.channels, columns,
               resized.data() + static_cast<std::size_t>(row - first_row) * row_values);
  }
  for (std::size_t row = 0; row < rows.taps.size(); ++row) {
    const Taps& taps = rows.taps[row];
    float* out = square.data() + row * row_values;
    std::fill_n(out, row_values, 0.0f);
    for (int j = 0; j < taps.count; ++j) {
      const float weight = rows.weights[taps.first_weight + static_cast<std::size_t>(j)];
      const float* from = resized.data() + static_cast<std::size_t>(taps.first - first_row + j) * row_values;
      for (std::size_t i = 0; i < row_values; ++i) out[i] += weight * from[i];
    }
    for (std::size_t i = 0; i < row_values; ++i) out[i] = (out[i] / 255.0f - 0.5f) * 2.0f;
  }
}

}  // namespace terngrad
