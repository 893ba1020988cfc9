// Conversions to and from bfloat16 on a GPU.
#include "kernels/tensor/cuda/bfloat16.h"

#include <cuda_runtime.h>

#include "kernels/tensor/bfloat16.h"
#include "kernels/tensor/cuda/elementwise.cuh"

namespace terngrad::cuda {
namespace {

struct Encode : ElementwiseOp {
  __device__ void operator()(float value, std::uint16_t& out) const { out = to_bfloat16(value); }
};

struct Decode : ElementwiseOp {
  __device__ void operator()(std::uint16_t value, float& out) const { out = from_bfloat16(value); }
};

struct Round : ElementwiseOp {
  __device__ void operator()(float& value) const { value = from_bfloat16(to_bfloat16(value)); }
};

}  // namespace

void encode_bfloat16(std::span<const float> values, std::span<std::uint16_t> out, const Stream& stream) {
  launch_elementwise<ConversionPolicy>(values.size(), stream, Encode{}, Input<float>{values.data()},
                                       Output<std::uint16_t>{out.data()});
}

void decode_bfloat16(std::span<const std::uint16_t> values, std::span<float> out, const Stream& stream) {
  launch_elementwise<ConversionPolicy>(values.size(), stream, Decode{}, Input<std::uint16_t>{values.data()},
                                       Output<float>{out.data()});
}

void round_to_bfloat16(std::span<float> values, const Stream& stream) {
  launch_elementwise(values.size(), stream, Round{}, InputOutput<float>{values.data()});
}

}  // namespace terngrad::cuda
