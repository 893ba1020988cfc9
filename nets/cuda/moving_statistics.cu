#include "nets/cuda/moving_statistics.h"

#include <cuda_runtime.h>

#include <cstdint>

#include "kernels/runtime/cuda/launch.cuh"
#include "kernels/tensor/cuda/reduce.cuh"

namespace terngrad::cuda {
namespace {

constexpr int kThreads = 256;

__device__ bool is_finite(float value) { return (__float_as_uint(value) & 0x7f800000u) != 0x7f800000u; }

struct Or {
  __device__ int operator()(int a, int b) const { return a | b; }
};

__device__ float moved_towards(float batch, double rate, float average) {
  const double from = average;
  return rate < 1 ? static_cast<float>(from + rate * (batch - from)) : batch;
}

/// One block per worker.
__global__ void __launch_bounds__(kThreads)
    update_kernel(float decay, const float* batch_mean, const float* batch_variance, int channels,
                  MovingStatistics statistics) {
  __shared__ bool is_bad;
  __shared__ float weight_before;
  const std::int64_t worker = blockIdx.x;
  const float* mean = batch_mean + worker * channels;
  const float* variance = batch_variance + worker * channels;
  float* const weight = statistics.weight.data + worker * statistics.weight.stride;
  int found_bad = 0;
  for (int c = static_cast<int>(threadIdx.x); c < channels; c += kThreads) {
    if (!is_finite(mean[c]) || !is_finite(variance[c])) found_bad = 1;
  }
  found_bad = block_reduce<kThreads>(found_bad, Or());
  if (threadIdx.x == 0) {
    is_bad = found_bad != 0;
    weight_before = *weight;
  }
  __syncthreads();
  if (is_bad) return;
  const double gain = 1 - static_cast<double>(decay);
  const double new_weight = static_cast<double>(decay) * static_cast<double>(weight_before) + gain;
  const double rate = gain / new_weight;
  float* const moving_mean = statistics.mean.data + worker * statistics.mean.stride;
  float* const moving_variance = statistics.variance.data + worker * statistics.variance.stride;
  for (int c = static_cast<int>(threadIdx.x); c < channels; c += kThreads) {
    moving_mean[c] = moved_towards(mean[c], rate, moving_mean[c]);
    moving_variance[c] = moved_towards(variance[c], rate, moving_variance[c]);
  }
  if (threadIdx.x == 0) *weight = static_cast<float>(new_weight);
}

}  // namespace

void update_moving_statistics(float decay, const float* batch_mean, const float* batch_variance, int channels,
                              int num_workers, const MovingStatistics& statistics, const Stream& stream) {
  launch(update_kernel, dim3(static_cast<unsigned>(num_workers)), dim3(kThreads), 0, stream, decay, batch_mean,
         batch_variance, channels, statistics);
}

}  // namespace terngrad::cuda
