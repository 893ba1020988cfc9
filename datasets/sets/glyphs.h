// Glyphs: the digits 0 to 9 as pen strokes, several handwriting variants each.
#pragma once

#include <span>

namespace terngrad {

/// A point in the glyph plane: x to the right, y down, origin at the centre of the glyph.
struct GlyphPoint {
  float x = 0.0f;
  float y = 0.0f;
};

/// Interpolation between the points of a stroke.
enum class StrokeKind {
  kPolyline,    // straight lines
  kCurve,       // Catmull-Rom spline through the points
  kClosedCurve  // closed Catmull-Rom spline
};

/// One movement of the pen, through at most kMaxStrokePoints points.
struct GlyphStroke {
  StrokeKind kind = StrokeKind::kPolyline;
  std::span<const GlyphPoint> points;
};

using Glyph = std::span<const GlyphStroke>;

inline constexpr int kNumDigits = 10;
inline constexpr int kMaxStrokePoints = 16;

/// The variants of `digit` (0..9), at least one. Points are in x [-0.5, 0.5], y [-0.75, 0.75].
std::span<const Glyph> digit_glyphs(int digit);

}  // namespace terngrad
