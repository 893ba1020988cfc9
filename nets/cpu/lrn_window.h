// Arithmetic of local response normalization on pixels in NHWC.
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

/// Size in floats of the scratch memory for one call, aligned like a Buffer. Its contents are not kept between calls.
std::int64_t lrn_scratch_elements(const LrnWindow& window);

/// y[c] = x[c] s[c]^-beta with s[c] = k + alpha * sum of x[d]^2 over |d - c| <= radius, for each of `num_pixels` pixels
/// [channels]. Sums go from the lowest channel to the highest; for beta = 0.75 the power is computed by additions and
/// multiplications only (relative error below 6e-7), else by std::pow. Bit-equal on every SIMD target. A NaN makes the
/// outputs of its window NaN. An infinity, or a square that overflows, makes s infinite: outputs of its window are then
/// 0, and NaN for infinite inputs.
/// @param scratch  [lrn_scratch_elements(window)]
void lrn_forward(const LrnWindow& window, const float* input, std::int64_t num_pixels, float* output, float* scratch);

/// dx[c] = g[c] s[c]^-beta - 2 alpha beta x[c] * sum of g[d] x[d] s[d]^(-beta - 1) over |d - c| <= radius. Recomputes s
/// and its powers: keeping s^(-1/4) from the forward pass would save 0.2 of 1.8 ms of both passes (128 x 12 x 12
/// pixels of 64 channels, one core), but costs a tensor as large as the activations.
/// @param output_gradient  g, [num_pixels, channels]
/// @param input_gradient   dx, [num_pixels, channels] out
void lrn_backward(const LrnWindow& window, const float* input, const float* output_gradient, std::int64_t num_pixels,
                  float* input_gradient, float* scratch);

}  // namespace terngrad::cpu
