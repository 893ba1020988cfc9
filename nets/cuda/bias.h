// Biases and ReLU after a product or a convolution on a GPU, and their gradients.
#pragma once

#include <cstdint>

#include "kernels/runtime/device.h"
#include "nets/layer_spec.h"
#include "nets/worker_buffers.h"

namespace terngrad::cuda {

// Pointers are device memory. Functions submit work to the stream and neither allocate nor wait.

/// values[r, c] = activation(values[r, c] + biases[c]), in place. The ReLU turns everything that is not greater than 0,
/// including NaN, into +0, as oneDNN does with AVX.
/// @param values  [rows, channels]
/// @param biases  [channels]; null: activation only
/// @throws InvalidArgument for more than 2^30 channels; DeviceError
void add_bias(float* values, const float* biases, std::int64_t rows, int channels, Activation activation,
              const Stream& stream);

/// Derivative of ReLU from its output: gradient[i] *= output[i] <= 0 ? 0 : 1, in place. Does not hide nonfinite values:
/// a NaN or infinity in the gradient stays nonfinite even where the output is 0, and where the output is NaN the
/// gradient is unchanged. Bit-identical to cpu::ReluGradient.
/// @param gradient, output  [count]
void relu_gradient(float* gradient, const float* output, std::int64_t count, const Stream& stream);

/// Size in floats of bias_gradient's scratch memory; may be 0.
std::int64_t bias_gradient_scratch(std::int64_t rows, int channels, int num_workers);

/// gradients.of(w)[c] = sum over r of output_gradient[w, r, c]. The float32 sums follow a tree that depends on `rows`
/// and `channels` only, so a worker's bits do not depend on the other workers of the call.
/// @param output_gradient  [num_workers, rows, channels]
/// @param rows             rows per worker, at least 1
/// @param gradients        out, [channels] per worker; memory between them is not written
/// @param scratch          [bias_gradient_scratch(rows, channels, num_workers)]
void bias_gradient(const float* output_gradient, std::int64_t rows, int channels, int num_workers,
                   WorkerBuffers<float> gradients, float* scratch, const Stream& stream);

}  // namespace terngrad::cuda
