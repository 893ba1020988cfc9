// The arithmetic of max pooling on one image, for any window, in NHWC.
#pragma once

#include "nets/net.h"
#include "nets/net_plan.h"

namespace terngrad::cpu {

/// What a max pool slides over what. `kThrough` leaves gradients as they are; `kAtOutput` first sets those of outputs
/// that are not positive to zero (see LayerPlan::applies_relu_gradient).
struct MaxPoolWindow {
  enum class ReluGradient { kThrough, kAtOutput };
  ImageShape input;
  ImageShape output;
  ImagePadding padding;
  int window = 1;
  int stride = 1;
  ReluGradient relu_gradient = ReluGradient::kThrough;
};

/// output[y, x, c] = the largest input[y stride + i - pad_top, x stride + j - pad_left, c] that lies in the image.
/// oneDNN's pooling takes three to five times as long for 20 and 50 channels, 13 % of a step of LeNet.
void max_pool_forward(const MaxPoolWindow& window, const float* input, float* output);

/// Adds each output's gradient to the first element of its window, by rows, that equals the output; writes every
/// element of `input_gradient`. Windows are visited by rows, so sums where they overlap have a fixed order. Winners are
/// found again by comparing rather than kept from the forward pass: reading an image from the cache costs less than
/// indices do.
void max_pool_backward(const MaxPoolWindow& window, const float* input, const float* output,
                       const float* output_gradient, float* input_gradient);

}  // namespace terngrad::cpu
