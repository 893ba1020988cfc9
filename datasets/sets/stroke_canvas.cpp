#include "datasets/sets/stroke_canvas.h"

#include <algorithm>
#include <cmath>
#include <cstddef>

#include "kernels/runtime/errors.h"

namespace terngrad {
namespace {

// Larger than any squared distance that affects a pixel.
constexpr float kFarAway = 1e12f;

/// Index of the first pixel at or above `low`, and one past the last pixel at or below `high`, clamped to [0, count].
int first_pixel(float low, int count) {
  return static_cast<int>(std::ceil(std::clamp(low, 0.0f, static_cast<float>(count))));
}
int end_pixel(float high, int count) {
  return static_cast<int>(std::floor(std::clamp(high, -1.0f, static_cast<float>(count - 1)))) + 1;
}

}  // namespace

StrokeCanvas::StrokeCanvas(int height, int width) : height_(height), width_(width) {
  TERNGRAD_REQUIRE(height > 0 && width > 0, "[StrokeCanvas] height and width must be positive, got ", height, " x ",
                   width);
  values_.resize(static_cast<std::size_t>(height) * static_cast<std::size_t>(width));
  squared_distance_.resize(values_.size());
  clear();
}

void StrokeCanvas::clear() {
  std::fill(values_.begin(), values_.end(), 0.0f);
  std::fill(squared_distance_.begin(), squared_distance_.end(), kFarAway);
}

void StrokeCanvas::add_path(std::span<const CanvasPoint> points, float radius) {
  const float reach = radius + 0.5f;
  if (points.size() == 1) add_segment(points[0], points[0], reach);
  for (std::size_t i = 1; i < points.size(); ++i) add_segment(points[i - 1], points[i], reach);
}

void StrokeCanvas::add_segment(CanvasPoint from, CanvasPoint to, float reach) {
  const float dx = to.x - from.x;
  const float dy = to.y - from.y;
  const float squared_length = dx * dx + dy * dy;
  const float inverse = squared_length > 1e-12f ? 1.0f / squared_length : 0.0f;  // shorter ones are dots
  const int x_begin = first_pixel(std::min(from.x, to.x) - reach, width_);
  const int x_end = end_pixel(std::max(from.x, to.x) + reach, width_);
  const int y_begin = first_pixel(std::min(from.y, to.y) - reach, height_);
  const int y_end = end_pixel(std::max(from.y, to.y) + reach, height_);
  for (int y = y_begin; y < y_end; ++y) {
    float* row = squared_distance_.data() + static_cast<std::ptrdiff_t>(y) * width_;
    const float py = static_cast<float>(y) - from.y;
    for (int x = x_begin; x < x_end; ++x) {
      // The nearest point of the segment is from + t (to - from), t clamped to [0, 1].
      const float px = static_cast<float>(x) - from.x;
      const float t = std::clamp((px * dx + py * dy) * inverse, 0.0f, 1.0f);
      const float ex = px - t * dx;
      const float ey = py - t * dy;
      row[x] = std::min(row[x], ex * ex + ey * ey);
    }
  }
}

void StrokeCanvas::paint(float radius, float ink) {
  for (std::size_t i = 0; i < values_.size(); ++i) {
    const float coverage = std::clamp(radius + 0.5f - std::sqrt(squared_distance_[i]), 0.0f, 1.0f);
    values_[i] = std::max(values_[i], ink * coverage);
    squared_distance_[i] = kFarAway;
  }
}

}  // namespace terngrad
