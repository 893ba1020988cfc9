// Sums of two arrays on a GPU: outputs of layers, and gradients of outputs with several consumers.
#pragma once

#include <cstdint>

#include "kernels/runtime/device.h"
#include "nets/layer_spec.h"

namespace terngrad::cuda {

// Pointers are device memory. Functions submit work to the stream and neither allocate nor wait.

/// sum[i] = activation(a[i] + b[i]); keeps NaNs. Bit-identical to the layer of cpu::make_add.
/// @param a, b, sum  [count]; `sum` may be `a`, otherwise they must not overlap
void add(const float* a, const float* b, Activation activation, std::int64_t count, float* sum, const Stream& stream);

/// sum[i] += addend[i].
/// @param sum, addend  [count], not overlapping
void add_to(float* sum, const float* addend, std::int64_t count, const Stream& stream);

/// Derivative of a ReLU: input_gradient[i] = output[i] > 0 ? output_gradient[i] : 0.
/// @param output, output_gradient, input_gradient  [count], not overlapping
void relu_gradient(const float* output, const float* output_gradient, std::int64_t count, float* input_gradient,
                   const Stream& stream);

}  // namespace terngrad::cuda
