#include "datasets/transforms/row_resizer.h"

#include <gtest/gtest.h>

#include <tuple>

#include "tests/datasets/data_files.h"

namespace terngrad::row_resizer_test {
namespace {

constexpr int kHeight = 23;
constexpr int kWidth = 31;

struct Axes {
  ResizeAxis rows;
  ResizeAxis columns;
};

Axes axes_of(ResizeMethod method, int height, int width) {
  Axes axes;
  make_resize_axis(method, {.from = kHeight, .to = height, .first = 2, .count = height - 3}, axes.rows);
  make_resize_axis(method, {.from = kWidth, .to = width, .first = 1, .count = width - 3}, axes.columns);
  return axes;
}

/// By the formula, in double.
double expected_value(const Bytes& pixels, int channels, const Axes& axes, int y, int x, int c) {
  double value = 0;
  for (int t = 0; t < axes.rows.taps; ++t) {
    for (int u = 0; u < axes.columns.taps; ++u) {
      const int row = axes.rows.first[static_cast<std::size_t>(y)] + t;
      const int column = axes.columns.first[static_cast<std::size_t>(x)] + u;
      value += static_cast<double>(axes.rows.weights[static_cast<std::size_t>(y * axes.rows.taps + t)]) *
               static_cast<double>(axes.columns.weights[static_cast<std::size_t>(x * axes.columns.taps + u)]) *
               pixels[static_cast<std::size_t>((row * kWidth + column) * channels + c)];
    }
  }
  return value;
}

std::vector<float> resized(const ImagePart& part, const Axes& axes) {
  const std::size_t row_values = axes.columns.first.size() * static_cast<std::size_t>(part.channels);
  std::vector<float> out(axes.rows.first.size() * row_values);
  ResizeScratch scratch;
  RowResizer resizer(part, axes.rows, axes.columns, scratch);
  for (int y = 0; y < axes.rows.num_targets(); ++y) {
    resizer.write_row(y, out.data() + static_cast<std::size_t>(y) * row_values);
  }
  return out;
}

class RowResizerMethods : public ::testing::TestWithParam<std::tuple<ResizeMethod, int>> {};

TEST_P(RowResizerMethods, FollowsTheFormula) {
  const auto [method, channels] = GetParam();
  const Bytes pixels = counting_bytes(static_cast<std::size_t>(kHeight * kWidth * channels));
  for (const auto& [height, width] : {std::pair{5, 6}, std::pair{14, 40}, std::pair{60, 9}, std::pair{23, 31}}) {
    const Axes axes = axes_of(method, height, width);
    const ImagePart part{.pixels = pixels.data(), .row_bytes = kWidth * channels, .channels = channels};
    const std::vector<float> found = resized(part, axes);
    std::size_t i = 0;
    for (int y = 0; y < height - 3; ++y) {
      for (int x = 0; x < width - 3; ++x) {
        for (int c = 0; c < channels; ++c) {
          ASSERT_NEAR(static_cast<double>(found[i++]), expected_value(pixels, channels, axes, y, x, c), 1e-3);
        }
      }
    }
  }
}

TEST_P(RowResizerMethods, APartHasTheBitsOfTheWhole) {
  const auto [method, channels] = GetParam();
  const Bytes pixels = counting_bytes(static_cast<std::size_t>(kHeight * kWidth * channels));
  const Axes axes = axes_of(method, 14, 12);
  const ImagePart whole{.pixels = pixels.data(), .row_bytes = kWidth * channels, .channels = channels};
  // Only the pixels that the axes need.
  Bytes needed;
  for (int row = axes.rows.begin; row < axes.rows.end; ++row) {
    const auto first = pixels.begin() + (row * kWidth + axes.columns.begin) * channels;
    needed.insert(needed.end(), first, first + (axes.columns.end - axes.columns.begin) * channels);
  }
  const ImagePart part{.pixels = needed.data(),
                       .row_bytes = (axes.columns.end - axes.columns.begin) * channels,
                       .channels = channels,
                       .top = axes.rows.begin,
                       .left = axes.columns.begin};
  EXPECT_EQ(resized(part, axes), resized(whole, axes));
}

INSTANTIATE_TEST_SUITE_P(All, RowResizerMethods,
                         ::testing::Combine(::testing::Values(ResizeMethod::kBilinear, ResizeMethod::kNearest,
                                                              ResizeMethod::kBicubic, ResizeMethod::kArea,
                                                              ResizeMethod::kAntialiased),
                                            ::testing::Values(1, 3)));

}  // namespace
}  // namespace terngrad::row_resizer_test
