// The arithmetic of local response normalization on pixels, in NHWC: channels of a pixel lie side by side.
#pragma once

#include <cstdint>

namespace terngrad::cpu {

/// LrnSpec (nets/layer_spec.h), for pixels of `channels` channels. k is a positive normal number, large enough that
/// k^(-beta - 1) is finite.
struct LrnWindow {
  int channels = 1;
  int radius = 0;
  float k = 1;
  float alpha = 0;
  float beta = 0.75f;
};

/// Floats of scratch memory, aligned like a Buffer, that one call needs; its contents mean nothing before and after.
std::int64_t lrn_scratch_elements(const LrnWindow& window);

/// y[c] = x[c] s[c]^-beta with s[c] = k + alpha * sum of x[d]^2 over |d - c| <= radius, for each of `num_pixels` pixels
/// [channels]. Sums go from the lowest channel to the highest; with beta = 0.75 the power takes additions and
/// multiplications only (relative error below 6e-7), with others std::pow. Equal bits on every SIMD target. A NaN makes
/// the outputs of its window NaN. An infinity, or a square that overflows, makes s infinite: outputs of its window are
/// then 0, and those of infinite inputs NaN.
/// @param scratch  [lrn_scratch_elements(window)]
void lrn_forward(const LrnWindow& window, const float* input, std::int64_t num_pixels, float* output, float* scratch);

/// dx[c] = g[c] s[c]^-beta - 2 alpha beta x[c] * sum of g[d] x[d] s[d]^(-beta - 1) over |d - c| <= radius. It computes
/// s and its powers again: keeping s^(-1/4) from the forward pass makes both together an eighth faster, 0.2 of 1.8 ms
/// for 128 x 12 x 12 pixels of 64 channels on one core, and costs a tensor as large as the activations.
/// @param output_gradient  g, [num_pixels, channels]
/// @param input_gradient   dx, [num_pixels, channels] out
void lrn_backward(const LrnWindow& window, const float* input, const float* output_gradient, std::int64_t num_pixels,
                  float* input_gradient, float* scratch);

}  // namespace terngrad::cpu
