// Arithmetic of max pooling on one image, for any window, in NHWC.
#pragma once

#include "nets/net.h"
#include "nets/net_plan.h"

namespace terngrad::cpu {

/// Window, stride, padding and shapes of a max pool. `kThrough` passes gradients unchanged; `kAtOutput` first zeroes
/// those of outputs that are not positive (see LayerPlan::applies_relu_gradient).
struct MaxPoolWindow {
  enum class ReluGradient { kThrough, kAtOutput };
  ImageShape input;
  ImageShape output;
  ImagePadding padding;
  int window = 1;
  int stride = 1;
  ReluGradient relu_gradient = ReluGradient::kThrough;
};

/// output[y, x, c] = max of input[y stride + i - pad_top, x stride + j - pad_left, c] inside the image. For 20 and 50
/// channels oneDNN's pooling takes three to five times as long, 13 % of a step of LeNet.
void max_pool_forward(const MaxPoolWindow& window, const float* input, float* output);

/// Adds each output's gradient to the first element of its window, in row-major order, that equals the output; writes
/// all of `input_gradient`. Windows are visited in row-major order, which fixes the order of sums in overlaps. Maxima
/// are located again by comparing, which is cheaper than storing indices in the forward pass.
void max_pool_backward(const MaxPoolWindow& window, const float* input, const float* output,
                       const float* output_gradient, float* input_gradient);

}  // namespace terngrad::cpu
