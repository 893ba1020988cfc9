// StrokeCanvas: anti-aliased pen strokes on a small grey image, by distances to line segments.
#pragma once

#include <cstdint>
#include <span>
#include <vector>

namespace terngrad {

/// A point in pixels: x to the right, y down; the centre of the top left pixel is (0, 0).
struct CanvasPoint {
  float x = 0.0f;
  float y = 0.0f;
};

/// A grey image of `height` x `width` values, 0 = background. Uses only IEEE additions, multiplications, divisions,
/// square roots and comparisons in a fixed order, so equal calls give equal bits on every machine.
class StrokeCanvas {
 public:
  /// @throws InvalidArgument unless height and width are positive
  StrokeCanvas(int height, int width);

  /// Zeroes the image and the path.
  void clear();

  /// Adds the line segments points[0]-points[1], points[1]-points[2], ... to the pen's path. A single point is a dot.
  /// @param radius  half of the line's width in pixels, positive; segments do not affect pixels whose centres are
  ///                further away than radius + 0.5. Use one radius per path. Coordinates must be finite
  void add_path(std::span<const CanvasPoint> points, float radius);

  /// Paints the path and clears it: with d the distance of a pixel's centre from the path,
  ///   value = max(value, ink * clamp(radius + 0.5 - d, 0, 1)).
  void paint(float radius, float ink);

  /// The image [height, width].
  std::span<const float> values() const { return values_; }

 private:
  void add_segment(CanvasPoint from, CanvasPoint to, float reach);

  int height_;
  int width_;
  std::vector<float> values_;
  std::vector<float> squared_distance_;  // per pixel, to the nearest segment of the path
};

}  // namespace terngrad
