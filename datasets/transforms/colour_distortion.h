// Distorting the colours of an image as Inception is trained.
#pragma once

#include <span>

#include "datasets/transforms/image_draws.h"

namespace terngrad {

inline constexpr float kMaxBrightness = 32.0f / 255;  // added or taken away
inline constexpr float kMaxHue = 0.2f;                // of a turn, either way
inline constexpr float kMinColourFactor = 0.5f;       // of saturation and contrast, to 1 more

/// What is done to the colours. The default changes nothing.
struct ColourDistortion {
  bool is_contrast_last = true;
  float brightness = 0;
  float saturation = 1;
  float hue = 0;
  float contrast = 1;
};

/// From blocks 0 and 1 of an example's draws, with u the words as numbers of [0, 1): contrast last if bit 30 of word 0
/// of block 0 is 0; brightness (2u - 1) kMaxBrightness; saturation kMinColourFactor + u; hue (2u - 1) kMaxHue; contrast
/// kMinColourFactor + u.
ColourDistortion draw_colour_distortion(const ImageDraws& draws);

/// Distorts in place, nothing clamped:
///   contrast last   brightness, saturation, hue, contrast
///   otherwise       brightness, contrast, saturation, hue
/// Brightness is added to each value; contrast makes x of channel c (x - m) * contrast + m, m the mean of channel c
/// then; saturation and hue as adjust_hue_saturation (cpu/hue_saturation.h). The source is distort_color of
/// TensorFlow's Inception, whose operations these are. Means are sums in a fixed order: equal calls give equal bits on
/// every machine.
/// @param image  [n, 3], n > 0: red, green, blue of 0 to 1 (those of kBicubic: beyond, too)
void distort_colours(const ColourDistortion& distortion, std::span<float> image);

}  // namespace terngrad
