#include "nets/cuda/add.h"

#include <cuda_runtime.h>

#include <cstddef>

#include "kernels/tensor/cuda/elementwise.cuh"

namespace terngrad::cuda {
namespace {

struct AddTo : ElementwiseOp {
  __device__ void operator()(float& sum, float addend) const { sum += addend; }
};

struct AddRectifiedTo : ElementwiseOp {
  __device__ void operator()(float& sum, float addend) const {
    const float value = sum + addend;
    sum = value <= 0 ? 0.0f : value;
  }
};

struct Sum : ElementwiseOp {
  __device__ void operator()(float a, float b, float& sum) const { sum = a + b; }
};

struct RectifiedSum : ElementwiseOp {
  __device__ void operator()(float a, float b, float& sum) const {
    const float value = a + b;
    sum = value <= 0 ? 0.0f : value;
  }
};

struct ReluGradient : ElementwiseOp {
  __device__ void operator()(float output, float output_gradient, float& input_gradient) const {
    input_gradient = output > 0 ? output_gradient : 0.0f;
  }
};

}  // namespace

void add(const float* a, const float* b, Activation activation, std::int64_t count, float* sum, const Stream& stream) {
  const auto size = static_cast<std::size_t>(count);
  const bool is_rectified = activation == Activation::kRelu;
  if (a == sum) {
    if (is_rectified) {
      launch_elementwise(size, stream, AddRectifiedTo(), InputOutput<float>{sum}, Input<float>{b});
    } else {
      add_to(sum, b, count, stream);
    }
  } else if (is_rectified) {
    launch_elementwise(size, stream, RectifiedSum(), Input<float>{a}, Input<float>{b}, Output<float>{sum});
  } else {
    launch_elementwise(size, stream, Sum(), Input<float>{a}, Input<float>{b}, Output<float>{sum});
  }
}

void add_to(float* sum, const float* addend, std::int64_t count, const Stream& stream) {
  launch_elementwise(static_cast<std::size_t>(count), stream, AddTo(), InputOutput<float>{sum}, Input<float>{addend});
}

void relu_gradient(const float* output, const float* output_gradient, std::int64_t count, float* input_gradient,
                   const Stream& stream) {
  launch_elementwise(static_cast<std::size_t>(count), stream, ReluGradient(), Input<float>{output},
                     Input<float>{output_gradient}, Output<float>{input_gradient});
}

}  // namespace terngrad::cuda
