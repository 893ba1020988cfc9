// Batch norm on a GPU, in NHWC, with its ReLU, for all workers at once.
#pragma once

#include <cstdint>

#include "kernels/runtime/device.h"
#include "nets/layer_spec.h"
#include "nets/worker_buffers.h"

namespace terngrad::cuda {

// Pointers are device memory. Images are [num_workers, rows, channels]: a row is a pixel of an example of the worker.
// Statistics are sums in double, in a tree that depends on rows and channels only, rounded to float32 once; so a
// worker's results have the same bits whichever others are in the call. The rest is float32. Work is submitted to the
// stream; nothing is allocated or waited for.
// @throws InvalidArgument for rows of more than 2^30 channels; DeviceError

struct BatchNormShape {
  std::int64_t rows = 1;  // of each worker, at least 1
  int channels = 1;
  float epsilon = 0.001f;
  Activation activation = Activation::kNone;
};

/// The layer's parameters, [channels] each, the same for all workers.
struct BatchNormParameters {
  const float* gamma = nullptr;  // null: 1
  const float* beta = nullptr;
};

/// Those of a batch, [num_workers, channels] each: out of forward, into backward.
struct BatchStatistics {
  float* mean = nullptr;
  float* variance = nullptr;           // biased
  float* inverse_deviation = nullptr;  // 1 / sqrt(variance + epsilon)
};

/// Doubles of scratch memory that forward and backward need.
std::int64_t batch_norm_scratch(const BatchNormShape& shape, int num_workers);

/// Training: output = activation(gamma ((input - mean) inverse_deviation) + beta), with the batch's statistics. A ReLU
/// keeps what is greater than 0 and makes everything else +0, a NaN too.
/// @param output   may be `input`, though backward needs the input
/// @param scratch  [batch_norm_scratch(shape, num_workers)]
void batch_norm_forward(const BatchNormShape& shape, int num_workers, const float* input,
                        const BatchNormParameters& parameters, const BatchStatistics& statistics, float* output,
                        double* scratch, const Stream& stream);

/// Evaluation: the same arithmetic with moving statistics, [channels] each, on `shape.rows` rows.
void batch_norm_inference(const BatchNormShape& shape, const float* input, const BatchNormParameters& parameters,
                          const float* moving_mean, const float* moving_variance, float* output, const Stream& stream);

/// What a backward pass reads and writes.
struct BatchNormBackward {
  const float* input = nullptr;
  const float* output = nullptr;           // for a ReLU: where it is not greater than 0, the gradient is taken as 0
  const float* output_gradient = nullptr;  // g
  float* input_gradient = nullptr;         // out, may be `output_gradient`; null if it is not wanted
  WorkerBuffers<float> gamma_gradients;    // out, [channels] of each worker; data is null without a gamma
  WorkerBuffers<float> beta_gradients;     // out, [channels] of each worker
};

/// With x' = (input - mean) inverse_deviation: beta's gradient is sum of g over rows, gamma's sum of g x', the input's
/// gamma inverse_deviation (g - mean of g - x' mean of g x').
void batch_norm_backward(const BatchNormShape& shape, int num_workers, const BatchNormParameters& parameters,
                         const BatchStatistics& statistics, const BatchNormBackward& arguments, double* scratch,
                         const Stream& stream);

}  // namespace terngrad::cuda
