// Drawing glyphs as pen strokes with bends, rotation and jitter.
#pragma once

#include <array>

#include "datasets/sets/example_draws.h"
#include "datasets/sets/glyphs.h"
#include "datasets/sets/stroke_canvas.h"

namespace terngrad {

/// Map from the glyph plane to the canvas: a quadratic bend, then an affine map.
struct GlyphMap {
  std::array<float, 6> bend{};
  float xx = 0, xy = 0, yx = 0, yy = 0, shift_x = 0, shift_y = 0;

  CanvasPoint apply(GlyphPoint p) const {
    const float x = p.x + bend[0] * p.x * p.x + bend[1] * p.x * p.y + bend[2] * p.y * p.y;
    const float y = p.y + bend[3] * p.x * p.x + bend[4] * p.x * p.y + bend[5] * p.y * p.y;
    return {xx * x + xy * y + shift_x, yx * x + yy * y + shift_y};
  }
};

/// Splits a stroke into short straight pieces in the glyph plane and adds them, mapped, to the canvas's path. Two draws
/// per pen point move it by up to `jitter` along each axis. Uses correctly rounded IEEE operations in a fixed order.
void add_stroke(const GlyphStroke& stroke, const GlyphMap& map, float jitter, float radius, ExampleDraws& draws,
                StrokeCanvas& canvas);

}  // namespace terngrad
