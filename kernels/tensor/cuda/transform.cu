// Checks and transformations of a gradient on a GPU.
#include "kernels/tensor/cuda/transform.h"

#include <cuda_runtime.h>
#include <thrust/for_each.h>

#include "kernels/tensor/cuda/elementwise.cuh"

namespace terngrad::cuda {
namespace {

__device__ bool is_nonfinite(float value) { return (__float_as_uint(value) & 0x7f800000u) == 0x7f800000u; }

struct FindNonfinite {
  std::uint32_t* found;
  __device__ void operator()(float value) const {
    if (is_nonfinite(value)) atomicExch(found, 1u);
  }
};

/// Stores only replaced elements: if there are none, the pass only reads.
struct ZeroNonfinite {
  std::int64_t* num_replaced;
  __device__ void operator()(float& value) const {
    if (!is_nonfinite(value)) return;
    value = 0;
    static_assert(sizeof(unsigned long long) == sizeof(std::int64_t), "the type that atomicAdd takes");
    atomicAdd(reinterpret_cast<unsigned long long*>(num_replaced), 1ull);
  }
};

struct Scale {
  float factor;
  const float* factor_on_device;
  __device__ float operator()(float value) const {
    return (factor_on_device == nullptr ? factor : __ldg(factor_on_device)) * value;
  }
};

struct Multiply {
  __device__ float operator()(float a, float b) const { return a * b; }
};

template <class T, class Op>
void for_each(std::span<T> values, const Op& op, const Stream& stream) {
  if (values.empty()) return;
  run_thrust(stream, [=](const auto& policy) { thrust::for_each_n(policy, values.data(), values.size(), op); });
}

}  // namespace

void find_nonfinite(std::span<const float> values, std::uint32_t* found, const Stream& stream) {
  for_each(values, FindNonfinite{found}, stream);
}

void zero_nonfinite(std::span<float> values, std::int64_t* num_replaced, const Stream& stream) {
  for_each(values, ZeroNonfinite{num_replaced}, stream);
}

void scale(std::span<float> values, float factor, const float* factor_on_device, const Stream& stream) {
  transform(values.size(), stream, Scale{factor, factor_on_device}, values.data(), values.data());
}

void multiply(std::span<const float> a, std::span<const float> b, std::span<float> out, const Stream& stream) {
  transform(out.size(), stream, Multiply(), out.data(), a.data(), b.data());
}

}  // namespace terngrad::cuda
