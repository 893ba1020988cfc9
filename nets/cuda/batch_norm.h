// Batch norm with ReLU on a GPU, in NHWC, for all workers at once.
#pragma once

#include <cstdint>

#include "kernels/runtime/device.h"
#include "nets/layer_spec.h"
#include "nets/worker_buffers.h"

namespace terngrad::cuda {

// Pointers are device memory. Images are [num_workers, rows, channels]: a row is a pixel of one of the worker's
// examples. Statistics are summed in double, in a tree that depends on rows and channels only, and rounded to float32
// once, so a worker's bits do not depend on the other workers of the call. The rest is float32. Functions submit work
// to the stream and neither allocate nor wait.
// @throws InvalidArgument for rows of more than 2^30 channels; DeviceError

/// Shape and options of batch normalization.
struct BatchNormShape {
  std::int64_t rows = 1;  // per worker, at least 1
  int channels = 1;
  float epsilon = 0.001f;
  Activation activation = Activation::kNone;
};

/// The layer's parameters, [channels] each, shared by all workers.
struct BatchNormParameters {
  const float* gamma = nullptr;  // null: 1
  const float* beta = nullptr;
};

/// Statistics of a batch, [num_workers, channels] each: output of forward, input of backward.
struct BatchStatistics {
  float* mean = nullptr;
  float* variance = nullptr;           // biased
  float* inverse_deviation = nullptr;  // 1 / sqrt(variance + epsilon)
};

/// Size in doubles of the scratch memory of forward and backward.
std::int64_t batch_norm_scratch(const BatchNormShape& shape, int num_workers);

/// Training: output = activation(gamma ((input - mean) inverse_deviation) + beta), with the batch's statistics. The
/// ReLU turns everything that is not greater than 0, including NaN, into +0.
/// @param output   may be `input`, but backward needs the input
/// @param scratch  [batch_norm_scratch(shape, num_workers)]
void batch_norm_forward(const BatchNormShape& shape, int num_workers, const float* input,
                        const BatchNormParameters& parameters, const BatchStatistics& statistics, float* output,
                        double* scratch, const Stream& stream);

/// Evaluation: the same arithmetic with moving statistics, [channels] each, on `shape.rows` rows.
void batch_norm_inference(const BatchNormShape& shape, const float* input, const BatchNormParameters& parameters,
                          const float* moving_mean, const float* moving_variance, float* output, const Stream& stream);

/// Arguments of a backward pass.
struct BatchNormBackward {
  const float* input = nullptr;
  const float* output = nullptr;           // for a ReLU: gradients count as 0 where it is not greater than 0
  const float* output_gradient = nullptr;  // g
  float* input_gradient = nullptr;         // out, may be `output_gradient`; null if not wanted
  WorkerBuffers<float> gamma_gradients;    // out, [channels] per worker; data is null without a gamma
  WorkerBuffers<float> beta_gradients;     // out, [channels] per worker
};

/// With x' = (input - mean) inverse_deviation, the gradients are sum of g over rows for beta, sum of g x' for gamma,
/// gamma inverse_deviation (g - mean of g - x' mean of g x') for the input.
void batch_norm_backward(const BatchNormShape& shape, int num_workers, const BatchNormParameters& parameters,
                         const BatchStatistics& statistics, const BatchNormBackward& arguments, double* scratch,
                         const Stream& stream);

}  // namespace terngrad::cuda
