// Max and average pooling on a GPU, for any window, in NHWC.
#pragma once

#include "kernels/runtime/device.h"
#include "nets/net.h"
#include "nets/net_plan.h"

namespace terngrad::cuda {

/// Window, stride, padding and shapes of a pool. With `relu_gradient`, the backward pass of a max pool first zeroes the
/// gradients of outputs that are not positive (see LayerPlan::applies_relu_gradient); average pools ignore it.
struct PoolWindow {
  ImageShape input;
  ImageShape output;
  ImagePadding padding;
  WindowSize window = 1;
  int stride = 1;
  bool relu_gradient = false;
  bool counts_padding = false;  // average pools: see AveragePoolSpec
};

// Pointers are device memory: `num_images` images of the window's shapes. Functions submit work to the stream and
// neither allocate nor wait. An image's results depend on that image only; all output elements are written.
// @throws InvalidArgument for images of more than 2^30 elements; DeviceError

/// output[y, x, c] = max of input[y stride + i - pad_top, x stride + j - pad_left, c] inside the image. NaNs and equal
/// values are treated as by x86's vector max: when one of two is NaN, or they are equal, the later one wins.
void max_pool_forward(const PoolWindow& window, int num_images, const float* input, float* output,
                      const Stream& stream);

/// Each output's gradient goes to the first element of its window, in row-major order, that equals the output. Where
/// windows overlap, an element adds gradients in row-major order of windows, to 0. Bit-identical to
/// cpu::max_pool_backward.
void max_pool_backward(const PoolWindow& window, int num_images, const float* input, const float* output,
                       const float* output_gradient, float* input_gradient, const Stream& stream);

/// output[y, x, c] = sum of the part of the window inside the image, in row-major order, divided by the number of its
/// elements, or with counts_padding of the window's.
void average_pool_forward(const PoolWindow& window, int num_images, const float* input, float* output,
                          const Stream& stream);

/// Each output's gradient is divided by the same number and added to each of them, in row-major
/// order of windows.
void average_pool_backward(const PoolWindow& window, int num_images, const float* output_gradient,
                           float* input_gradient, const Stream& stream);

}  // namespace terngrad::cuda
