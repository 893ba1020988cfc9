// Adjustment of hue and saturation.
#pragma once

#include <span>

namespace terngrad::cpu {

/// Multiplies the saturation of pixels, clamps it to [0, 1], and rotates the hue, in place. With V = max(r, g, b) and
/// C = V - min(r, g, b):
///   S = C / V, or 0 unless V > 0
///   H = (g - b) / 6C if V = r, else 1/3 + (b - r) / 6C if V = g, else 2/3 + (r - g) / 6C; 0 unless C > 0; modulo 1
///   S' = min(max(S * saturation, 0), 1); H' = (H + hue) modulo 1
///   red = (1 - S' + S' min(max(|6H' - 3| - 1, 0), 1)) V, green with 2 - |6H' - 2|, blue with 2 - |6H' - 4|
/// This is tf.image.adjust_saturation followed by adjust_hue, with one conversion to HSV and back. Values may be
/// outside [0, 1]. Bit-equal on every SIMD target.
/// @param pixels  [n, 3]: red, green, blue; finite
/// @param hue     in [-1, 1]
void adjust_hue_saturation(std::span<float> pixels, float saturation, float hue);

}  // namespace terngrad::cpu
