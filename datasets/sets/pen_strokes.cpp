#include "datasets/sets/pen_strokes.h"

#include <algorithm>
#include <cstddef>
#include <span>

namespace terngrad {
namespace {

/// Point at t in [0, 1] between p1 and p2 of the Catmull-Rom spline through p0, p1, p2, p3.
float catmull_rom(float p0, float p1, float p2, float p3, float t) {
  const float a = p2 - p0;
  const float b = 2.0f * p0 - 5.0f * p1 + 4.0f * p2 - p3;
  const float c = 3.0f * (p1 - p2) + p3 - p0;
  return 0.5f * (2.0f * p1 + t * (a + t * (b + t * c)));
}

}  // namespace

void add_stroke(const GlyphStroke& stroke, const GlyphMap& map, float jitter, float radius, ExampleDraws& draws,
                StrokeCanvas& canvas) {
  constexpr int kPieces = 3;  // per pair of points, also for straight lines, since the map bends them
  std::array<GlyphPoint, kMaxStrokePoints> points;
  const int num_points = static_cast<int>(stroke.points.size());
  if (num_points == 0) return;
  for (int i = 0; i < num_points; ++i) {
    const GlyphPoint point = stroke.points[static_cast<std::size_t>(i)];
    const float jitter_x = draws.symmetric(jitter);
    const float jitter_y = draws.symmetric(jitter);
    points[static_cast<std::size_t>(i)] = {point.x + jitter_x, point.y + jitter_y};
  }
  const bool closed = stroke.kind == StrokeKind::kClosedCurve;
  const auto at = [&](int i) {
    const int inside = closed ? (i + num_points) % num_points : std::clamp(i, 0, num_points - 1);
    return points[static_cast<std::size_t>(inside)];
  };
  std::array<CanvasPoint, kMaxStrokePoints * kPieces + 1> path;
  std::size_t path_points = 0;
  path[path_points++] = map.apply(at(0));
  const int num_pairs = closed ? num_points : num_points - 1;
  for (int i = 0; i < num_pairs; ++i) {
    const GlyphPoint p1 = at(i), p2 = at(i + 1);
    const bool straight = stroke.kind == StrokeKind::kPolyline;
    // With p0 = 2 p1 - p2 and p3 = 2 p2 - p1 the spline is the straight line.
    const GlyphPoint p0 = straight ? GlyphPoint{2.0f * p1.x - p2.x, 2.0f * p1.y - p2.y} : at(i - 1);
    const GlyphPoint p3 = straight ? GlyphPoint{2.0f * p2.x - p1.x, 2.0f * p2.y - p1.y} : at(i + 2);
    for (int piece = 1; piece <= kPieces; ++piece) {
      const float t = static_cast<float>(piece) / kPieces;
      path[path_points++] = map.apply({catmull_rom(p0.x, p1.x, p2.x, p3.x, t), catmull_rom(p0.y, p1.y, p2.y, p3.y, t)});
    }
  }
  canvas.add_path(std::span(path).first(path_points), radius);
}

}  // namespace terngrad
