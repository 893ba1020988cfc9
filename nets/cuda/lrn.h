// Local response normalization on a GPU, in NHWC.
#pragma once

#include <cstdint>

#include "kernels/runtime/device.h"

namespace terngrad::cuda {

/// LrnSpec (nets/layer_spec.h) for pixels of `channels` channels, as cpu::LrnWindow.
struct LrnShape {
  int channels = 1;
  int radius = 0;
  float k = 1;
  float alpha = 0;
  float beta = 0.75f;
};

// Formulas and order of sums are those of nets/cpu/lrn_window.h. For beta = 0.75 bits are equal, too; for others the
// GPU's power differs from the CPU's by up to 1e-6, relative. Pointers are device memory [num_pixels, channels].
// Functions submit work to the stream and neither allocate nor wait.
// @throws NotSupported if the channels of a pixel and the windows beyond them, channels + 2 min(radius, channels - 1)
//         numbers, are more than kMaxLrnRow; DeviceError

/// Maximum floats of a padded row: a block has shared memory for two.
inline constexpr int kMaxLrnRow = 6144;

/// y[c] = x[c] s[c]^-beta, as cpu::lrn_forward.
void lrn_forward(const LrnShape& shape, std::int64_t num_pixels, const float* input, float* output,
                 const Stream& stream);

/// Gradient of the input, as cpu::lrn_backward.
void lrn_backward(const LrnShape& shape, std::int64_t num_pixels, const float* input, const float* output_gradient,
                  float* input_gradient, const Stream& stream);

}  // namespace terngrad::cuda
