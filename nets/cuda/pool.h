// Pooling on a GPU, for any window, in NHWC.
#pragma once

#include "kernels/runtime/device.h"
#include "nets/net.h"
#include "nets/net_plan.h"

namespace terngrad::cuda {

/// What a pool slides over what. With `relu_gradient`, the backward pass of a max pool first sets the gradients of
/// outputs that are not positive to zero (see LayerPlan::applies_relu_gradient); an average pool has no such case.
struct PoolWindow {
  ImageShape input;
  ImageShape output;
  ImagePadding padding;
  WindowSize window = 1;
  int stride = 1;
  bool relu_gradient = false;
};

// Pointers are device memory: `num_images` images of the window's shapes. Work is submitted to the stream; nothing is
// allocated or waited for. An image's results depend on that image only, and every element is written.
// @throws InvalidArgument for images of more than 2^30 elements; DeviceError

/// output[y, x, c] = the largest input[y stride + i - pad_top, x stride + j - pad_left, c] that lies in the image. A
/// number wins against a NaN before it, a NaN against a number, and of equals the last: as vectors of x86 have it.
void max_pool_forward(const PoolWindow& window, int num_images, const float* input, float* output,
                      const Stream& stream);

/// Each output's gradient goes to the first element of its window, by rows, that equals the output. Where windows
/// overlap, an element adds its shares by rows of windows, to 0. The bits of cpu::max_pool_backward.
void max_pool_backward(const PoolWindow& window, int num_images, const float* input, const float* output,
                       const float* output_gradient, float* input_gradient, const Stream& stream);

/// output[y, x, c] = mean of the part of the window that lies in the image, summed by rows.
void average_pool_forward(const PoolWindow& window, int num_images, const float* input, float* output,
                          const Stream& stream);

/// Each output's gradient is divided by the number of elements in its window and added to each of them, by rows of
/// windows.
void average_pool_backward(const PoolWindow& window, int num_images, const float* output_gradient,
                           float* input_gradient, const Stream& stream);

}  // namespace terngrad::cuda
