#include "nets/cuda/bias.h"

#include <cuda_runtime.h>

#include "kernels/tensor/cuda/elementwise.cuh"
#include "nets/cuda/divisor.h"
#include "nets/cuda/packs.cuh"
#include "nets/cuda/row_sums.cuh"

namespace terngrad::cuda {
namespace {

__device__ float relu(float value) { return value > 0 ? value : 0.0f; }

struct Relu {
  __device__ float operator()(float value) const { return relu(value); }
};

struct ReluGradient {
  __device__ float operator()(float gradient, float output) const { return gradient * (output <= 0 ? 0.0f : 1.0f); }
};

/// @param packs  packs per row
template <int kLanes, bool kRelu>
__global__ void __launch_bounds__(kPackThreads)
    add_bias_kernel(float* values, const float* biases, int num_packs, Divisor packs) {
  const int item = item_index();
  if (item >= num_packs) return;
  float* at = values + std::int64_t{item} * kLanes;
  Pack<kLanes> pack = load_pack<kLanes>(at);
  const Pack<kLanes> bias = load_pack<kLanes>(biases + packs.remainder(item) * kLanes);
#pragma unroll
  for (int i = 0; i < kLanes; ++i) {
    const float sum = pack.lanes[i] + bias.lanes[i];
    pack.lanes[i] = kRelu ? relu(sum) : sum;
  }
  store_pack(at, pack);
}

template <int kLanes>
void launch_add_bias(float* values, const float* biases, std::int64_t rows, int channels, bool has_relu,
                     const Stream& stream) {
  for_each_part(rows, channels, [&](std::int64_t first, int num_rows) {
    const int packs = channels / kLanes;
    const int num_packs = num_rows * packs;
    const auto kernel = has_relu ? add_bias_kernel<kLanes, true> : add_bias_kernel<kLanes, false>;
    launch(kernel, dim3(num_blocks_for(num_packs, kPackThreads)), dim3(kPackThreads), 0, stream,
           values + first * channels, biases, num_packs, Divisor(packs));
  });
}

struct GradientTerm {
  const float* gradient;
  std::int64_t rows;
  int channels;
  __device__ float operator()(int worker, std::int64_t row, int channel) const {
    return gradient[(worker * rows + row) * channels + channel];
  }
};

struct StoreSum {
  WorkerBuffers<float> gradients;
  __device__ void operator()(int worker, int /*chunk*/, int channel, float sum) const {
    gradients.data[worker * gradients.stride + channel] = sum;
  }
};

}  // namespace

void add_bias(float* values, const float* biases, std::int64_t rows, int channels, Activation activation,
              const Stream& stream) {
  const bool has_relu = activation == Activation::kRelu;
  if (biases == nullptr) {
    if (has_relu) transform(static_cast<std::size_t>(rows * channels), stream, Relu(), values, values);
  } else if (channels % kWideLanes == 0 && are_aligned_for_packs(values, biases)) {
    launch_add_bias<kWideLanes>(values, biases, rows, channels, has_relu, stream);
  } else {
    launch_add_bias<1>(values, biases, rows, channels, has_relu, stream);
  }
}

void relu_gradient(float* gradient, const float* output, std::int64_t count, const Stream& stream) {
  transform(static_cast<std::size_t>(count), stream, ReluGradient(), gradient, gradient, output);
}

std::int64_t bias_gradient_scratch(std::int64_t rows, int channels, int num_workers) {
  return RowSumPlan(rows, channels).scratch_sums(num_workers);
}

void bias_gradient(const float* output_gradient, std::int64_t rows, int channels, int num_workers,
                   WorkerBuffers<float> gradients, float* scratch, const Stream& stream) {
  sum_rows<float>(rows, channels, num_workers, GradientTerm{output_gradient, rows, channels}, StoreSum{gradients},
                  scratch, stream);
}

}  // namespace terngrad::cuda
