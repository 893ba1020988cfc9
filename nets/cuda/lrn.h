// Local response normalization on a GPU, in NHWC.
#pragma once

#include <cstdint>

#include "kernels/runtime/device.h"

namespace terngrad::cuda {

/// LrnSpec (nets/layer_spec.h), for pixels of `channels` channels, as cpu::LrnWindow.
struct LrnShape {
  int channels = 1;
  int radius = 0;
  float k = 1;
  float alpha = 0;
  float beta = 0.75f;
};

// The formulas, the order of sums and, for beta = 0.75, the bits of nets/cpu/lrn_window.h; with another beta the power
// is the GPU's, within 1e-6 of the CPU's, relative. Pointers are device memory: [num_pixels, channels]. Work is
// submitted to the stream; nothing is allocated or waited for.
// @throws NotSupported if the channels of a pixel and the windows beyond them, channels + 2 min(radius, channels - 1)
//         numbers, are more than kMaxLrnRow; DeviceError

/// What a block has shared memory for, twice.
inline constexpr int kMaxLrnRow = 6144;

void lrn_forward(const LrnShape& shape, std::int64_t num_pixels, const float* input, float* output,
                 const Stream& stream);

void lrn_backward(const LrnShape& shape, std::int64_t num_pixels, const float* input, const float* output_gradient,
                  float* input_gradient, const Stream& stream);

}  // namespace terngrad::cuda
