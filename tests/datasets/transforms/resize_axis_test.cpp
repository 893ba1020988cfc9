#include "datasets/transforms/resize_axis.h"

#include "kernels/runtime/errors.h"

#include <gtest/gtest.h>

#include <cmath>

namespace terngrad::resize_axis_test {
namespace {

constexpr ResizeMethod kMethods[] = {ResizeMethod::kBilinear, ResizeMethod::kNearest, ResizeMethod::kBicubic,
                                     ResizeMethod::kArea, ResizeMethod::kAntialiased};

ResizeAxis axis_of(ResizeMethod method, const ResizedRange& range) {
  ResizeAxis axis;
  make_resize_axis(method, range, axis);
  return axis;
}

/// Applies the axis to the pixels `source`, which start at position `left`.
std::vector<double> applied(const ResizeAxis& axis, const std::vector<double>& source, int left = 0) {
  std::vector<double> target;
  for (std::size_t i = 0; i < axis.first.size(); ++i) {
    double sum = 0;
    for (int t = 0; t < axis.taps; ++t) {
      sum += static_cast<double>(axis.weights[i * static_cast<std::size_t>(axis.taps) + static_cast<std::size_t>(t)]) *
             source.at(static_cast<std::size_t>(axis.first[i] + t - left));
    }
    target.push_back(sum);
  }
  return target;
}

std::vector<double> resized(ResizeMethod method, const std::vector<double>& source, int to) {
  return applied(axis_of(method, {.from = static_cast<int>(source.size()), .to = to, .first = 0, .count = to}), source);
}

void expect_near(const std::vector<double>& found, const std::vector<double>& expected, double tolerance = 1e-5) {
  ASSERT_EQ(found.size(), expected.size());
  for (std::size_t i = 0; i < found.size(); ++i) EXPECT_NEAR(found[i], expected[i], tolerance) << i;
}

TEST(ResizeAxis, ARampStaysARampWherePixelsArePoints) {
  // Source pixel j is j: target i is its position s i, limited by the last pixel.
  const std::vector<double> ramp = {0, 1, 2, 3, 4, 5, 6, 7};
  expect_near(resized(ResizeMethod::kBilinear, ramp, 4), {0, 2, 4, 6});
  expect_near(resized(ResizeMethod::kBilinear, ramp, 5), {0, 1.6, 3.2, 4.8, 6.4});
  expect_near(resized(ResizeMethod::kBilinear, ramp, 16),
              {0, 0.5, 1, 1.5, 2, 2.5, 3, 3.5, 4, 4.5, 5, 5.5, 6, 6.5, 7, 7});
  expect_near(resized(ResizeMethod::kNearest, ramp, 5), {0, 1, 3, 4, 6});
  expect_near(resized(ResizeMethod::kNearest, ramp, 16), {0, 0, 1, 1, 2, 2, 3, 3, 4, 4, 5, 5, 6, 6, 7, 7});
}

TEST(ResizeAxis, AreaIsTheMeanOfWhatATargetPixelCovers) {
  const std::vector<double> ramp = {0, 1, 2, 3, 4, 5};
  expect_near(resized(ResizeMethod::kArea, ramp, 3), {0.5, 2.5, 4.5});
  expect_near(resized(ResizeMethod::kArea, ramp, 4),
              {(0 + 0.5 * 1) / 1.5, (0.5 * 1 + 2) / 1.5, (3 + 0.5 * 4) / 1.5, (0.5 * 4 + 5) / 1.5});
  expect_near(resized(ResizeMethod::kArea, ramp, 12), {0, 0, 1, 1, 2, 2, 3, 3, 4, 4, 5, 5});
  expect_near(resized(ResizeMethod::kArea, {0, 1, 2}, 4),
              {0, (0.25 * 0 + 0.5 * 1) / 0.75, (0.5 * 1 + 0.25 * 2) / 0.75, 2});
}

TEST(ResizeAxis, CubicFollowsItsKernel) {
  const std::vector<double> ramp = {0, 1, 2, 3, 4, 5, 6, 7};
  // Half-way: -0.09375, 0.59375, 0.59375, -0.09375; the edge pixel repeats.
  expect_near(resized(ResizeMethod::kBicubic, ramp, 16),
              {0, 0.59375 * 1 - 0.09375 * 2, 1, 1.5, 2, 2.5, 3, 3.5, 4, 4.5, 5, 5.5, 6,
               -0.09375 * 5 + 0.59375 * 6 + 0.5 * 7, 7, -0.09375 * 6 + 1.09375 * 7});
  // At a quarter: kernel values at 1.25, 0.25, 0.75 and 1.75.
  const ResizeAxis axis = axis_of(ResizeMethod::kBicubic, {.from = 8, .to = 32, .first = 9, .count = 1});
  ASSERT_EQ(axis.taps, 4);
  EXPECT_EQ(axis.first[0], 1);
  expect_near({axis.weights.begin(), axis.weights.end()}, {-0.10546875, 0.87890625, 0.26171875, -0.03515625}, 1e-7);
}

TEST(ResizeAxis, WeightsAddUpToOne) {
  for (const ResizeMethod method : kMethods) {
    for (const int from : {1, 2, 3, 7, 100, 501}) {
      for (const int to : {1, 2, 5, 64, 300}) {
        const std::vector<double> flat(static_cast<std::size_t>(from), 1.0);
        for (const double value : resized(method, flat, to)) ASSERT_NEAR(value, 1, 1e-6) << from << " to " << to;
      }
    }
  }
}

TEST(ResizeAxis, APartIsThatPartOfTheWhole) {
  std::vector<double> source;
  for (int i = 0; i < 50; ++i) source.push_back(std::fmod(i * 37.0, 101.0));
  for (const ResizeMethod method : kMethods) {
    for (const int to : {20, 50, 83}) {
      const std::vector<double> whole = resized(method, source, to);
      ResizedRange range{.from = 50, .to = to, .first = 4, .count = 11};
      const ResizeAxis part = axis_of(method, range);
      const std::vector<double> expected(whole.begin() + 4, whole.begin() + 15);
      expect_near(applied(part, source), expected, 1e-12);
      EXPECT_GT(part.end - part.begin, 0);
      for (const int first : part.first) {
        EXPECT_GE(first, part.begin);
        EXPECT_LE(first + part.taps, part.end);
      }
      range.flip = true;
      const std::vector<double> mirrored = applied(axis_of(method, range), source);
      EXPECT_EQ(std::vector<double>(mirrored.rbegin(), mirrored.rend()), applied(part, source));
      range.flip = false;
      range.source_first = 1000;
      const ResizeAxis shifted = axis_of(method, range);
      EXPECT_EQ(shifted.begin, part.begin + 1000);
      EXPECT_EQ(shifted.end, part.end + 1000);
      EXPECT_EQ(applied(shifted, source, 1000), applied(part, source));
    }
  }
}

TEST(ResizeAxis, RefusesRangesOutside) {
  ResizeAxis axis;
  for (const ResizedRange& range : {ResizedRange{.from = 0, .to = 4, .first = 0, .count = 4},
                                    ResizedRange{.from = 4, .to = 4, .first = -1, .count = 4},
                                    ResizedRange{.from = 4, .to = 4, .first = 1, .count = 4},
                                    ResizedRange{.from = 4, .to = 4, .first = 0, .count = 0}}) {
    EXPECT_THROW(make_resize_axis(ResizeMethod::kBilinear, range, axis), InvalidArgument);
  }
}

}  // namespace
}  // namespace terngrad::resize_axis_test
