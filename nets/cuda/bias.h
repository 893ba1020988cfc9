// Biases and ReLU on a GPU: added to the outputs of a product or a convolution, and their gradients.
#pragma once

#include <cstdint>

#include "kernels/runtime/device.h"
#include "nets/layer_spec.h"
#include "nets/worker_buffers.h"

namespace terngrad::cuda {

// All pointers are device memory. Work is submitted to the stream; nothing is allocated or waited for.

/// values[r, c] = activation(values[r, c] + biases[c]), in place. A ReLU keeps what is greater than 0 and makes
/// everything else +0, a NaN too, as oneDNN does with AVX.
/// @param values  [rows, channels]
/// @param biases  [channels], or null: the activation only
/// @throws InvalidArgument for more than 2^30 channels; DeviceError
void add_bias(float* values, const float* biases, std::int64_t rows, int channels, Activation activation,
              const Stream& stream);

/// gradient[i] *= output[i] <= 0 ? 0 : 1, in place: the derivative of ReLU, from its output. A NaN or an infinity in
/// the gradient stays or becomes NaN even where the output is 0, and where the output is NaN the gradient is left as it
/// is: what is not finite is not hidden. The bits of cpu::ReluGradient.
/// @param gradient, output  [count]
void relu_gradient(float* gradient, const float* output, std::int64_t count, const Stream& stream);

/// Floats of scratch memory that bias_gradient needs; may be 0.
std::int64_t bias_gradient_scratch(std::int64_t rows, int channels, int num_workers);

/// gradients.of(w)[c] = sum over r of output_gradient[w, r, c]. Sums of float32 follow a tree that depends on `rows`
/// and `channels` only: a worker's have the same bits whichever others are in the call.
/// @param output_gradient  [num_workers, rows, channels]
/// @param rows             of each worker, at least 1
/// @param gradients        [channels] of each worker; what lies between them is left as it is
/// @param scratch          [bias_gradient_scratch(rows, channels, num_workers)]
void bias_gradient(const float* output_gradient, std::int64_t rows, int channels, int num_workers,
                   WorkerBuffers<float> gradients, float* scratch, const Stream& stream);

}  // namespace terngrad::cuda
