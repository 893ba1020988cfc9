#include "datasets/sets/stroke_canvas.h"

#include "kernels/runtime/errors.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <array>
#include <cmath>
#include <vector>

namespace terngrad::stroke_canvas_test {
namespace {

/// Distance of p from the segment a-b, in double, by sampling the segment.
double sampled_distance(CanvasPoint p, CanvasPoint a, CanvasPoint b) {
  double nearest = 1e30;
  for (int i = 0; i <= 20'000; ++i) {
    const double t = i / 20'000.0;
    nearest = std::min(
        nearest, std::hypot(double{a.x} + t * (double{b.x} - a.x) - p.x, double{a.y} + t * (double{b.y} - a.y) - p.y));
  }
  return nearest;
}

TEST(StrokeCanvas, CoverageFollowsTheDistance) {
  const std::array<CanvasPoint, 3> path = {CanvasPoint{-2.0f, 1.5f}, {5.25f, 3.0f}, {4.0f, 9.75f}};
  StrokeCanvas canvas(9, 7);
  canvas.add_path(path, 1.2f);
  canvas.paint(1.2f, 0.8f);
  for (int y = 0; y < 9; ++y) {
    for (int x = 0; x < 7; ++x) {
      const CanvasPoint pixel{static_cast<float>(x), static_cast<float>(y)};
      const double d = std::min(sampled_distance(pixel, path[0], path[1]), sampled_distance(pixel, path[1], path[2]));
      const double expected = 0.8 * std::clamp(1.2 + 0.5 - d, 0.0, 1.0);
      EXPECT_NEAR(canvas.values()[static_cast<std::size_t>(y * 7 + x)], expected, 1e-3) << x << ", " << y;
    }
  }
}

TEST(StrokeCanvas, SinglePointIsADot) {
  StrokeCanvas canvas(3, 3);
  const CanvasPoint middle{1.0f, 1.0f};
  canvas.add_path({&middle, 1}, 1.0f);
  canvas.paint(1.0f, 1.0f);
  const float corner = 1.5f - std::sqrt(2.0f);
  const std::vector<float> expected = {corner, 0.5f, corner, 0.5f, 1.0f, 0.5f, corner, 0.5f, corner};
  for (std::size_t i = 0; i < 9; ++i) EXPECT_FLOAT_EQ(canvas.values()[i], expected[i]) << i;
}

TEST(StrokeCanvas, PaintKeepsTheBrighterValueAndForgetsThePath) {
  StrokeCanvas canvas(1, 2);
  const CanvasPoint left{0.0f, 0.0f};
  canvas.add_path({&left, 1}, 0.5f);
  canvas.paint(0.5f, 0.75f);
  canvas.add_path({&left, 1}, 0.5f);
  canvas.paint(0.5f, 0.25f);
  EXPECT_EQ(canvas.values()[0], 0.75f);
  canvas.paint(0.5f, 1.0f);
  EXPECT_EQ(canvas.values()[0], 0.75f);
  EXPECT_EQ(canvas.values()[1], 0.0f);
  canvas.clear();
  EXPECT_EQ(canvas.values()[0], 0.0f);
}

TEST(StrokeCanvas, StrokesOutsideLeaveThePixelsAlone) {
  StrokeCanvas canvas(4, 4);
  const std::array<CanvasPoint, 3> path = {CanvasPoint{-1e6f, -9.0f}, {1e6f, -9.0f}, {1e6f, 1e6f}};
  canvas.add_path(path, 2.0f);
  canvas.paint(2.0f, 1.0f);
  for (const float value : canvas.values()) EXPECT_EQ(value, 0.0f);
}

TEST(StrokeCanvas, EmptyPathAndEmptyCanvas) {
  StrokeCanvas canvas(2, 2);
  canvas.add_path({}, 1.0f);
  canvas.paint(1.0f, 1.0f);
  for (const float value : canvas.values()) EXPECT_EQ(value, 0.0f);
  EXPECT_THROW(StrokeCanvas(0, 2), InvalidArgument);
  EXPECT_THROW(StrokeCanvas(2, -1), InvalidArgument);
}

}  // namespace
}  // namespace terngrad::stroke_canvas_test
