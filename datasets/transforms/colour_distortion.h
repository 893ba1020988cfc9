// Random colour distortion as in the training of Inception.
#pragma once

#include <span>

#include "datasets/transforms/image_draws.h"

namespace terngrad {

inline constexpr float kMaxBrightness = 32.0f / 255;  // added or subtracted
inline constexpr float kMaxHue = 0.2f;                // in turns, either direction
inline constexpr float kMinColourFactor = 0.5f;       // saturation and contrast are in [0.5, 1.5)

/// Parameters of the distortion. The default changes nothing.
struct ColourDistortion {
  bool is_contrast_last = true;
  float brightness = 0;
  float saturation = 1;
  float hue = 0;
  float contrast = 1;
};

/// Draws the parameters from blocks 0 and 1 of an example's draws, with u a word as a number in [0, 1): contrast last
/// if bit 30 of word 0 of block 0 is 0; brightness (2u - 1) kMaxBrightness; saturation kMinColourFactor + u; hue
/// (2u - 1) kMaxHue; contrast kMinColourFactor + u.
ColourDistortion draw_colour_distortion(const ImageDraws& draws);

/// Distorts in place, without clamping:
///   contrast last   brightness, saturation, hue, contrast
///   otherwise       brightness, contrast, saturation, hue
/// Brightness is added to each value; contrast replaces x of channel c by (x - m) * contrast + m, with m the current
/// mean of channel c; saturation and hue as in adjust_hue_saturation (cpu/hue_saturation.h). Source: distort_color of
/// TensorFlow's Inception. Means are summed in a fixed order: equal calls give equal bits on every machine.
/// @param image  [n, 3], n > 0: red, green, blue in [0, 1] (also outside after kBicubic)
void distort_colours(const ColourDistortion& distortion, std::span<float> image);

}  // namespace terngrad
