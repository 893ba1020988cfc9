#include "nets/cuda/add.h"

#include <cuda_runtime.h>

#include <cstddef>

#include "kernels/tensor/cuda/elementwise.cuh"

namespace terngrad::cuda {
namespace {

struct Sum {
  __device__ float operator()(float a, float b) const { return a + b; }
};

struct RectifiedSum {
  __device__ float operator()(float a, float b) const {
    const float value = a + b;
    return value <= 0 ? 0.0f : value;
  }
};

struct ReluGradient {
  __device__ float operator()(float output, float output_gradient) const { return output > 0 ? output_gradient : 0.0f; }
};

}  // namespace

void add(const float* a, const float* b, Activation activation, std::int64_t count, float* sum, const Stream& stream) {
  const auto size = static_cast<std::size_t>(count);
  if (activation == Activation::kRelu) {
    transform(size, stream, RectifiedSum(), sum, a, b);
  } else {
    transform(size, stream, Sum(), sum, a, b);
  }
}

void add_to(float* sum, const float* addend, std::int64_t count, const Stream& stream) {
  add(sum, addend, Activation::kNone, count, sum, stream);
}

void relu_gradient(const float* output, const float* output_gradient, std::int64_t count, float* input_gradient,
                   const Stream& stream) {
  transform(static_cast<std::size_t>(count), stream, ReluGradient(), input_gradient, output, output_gradient);
}

}  // namespace terngrad::cuda
