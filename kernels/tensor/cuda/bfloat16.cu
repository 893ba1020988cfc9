// Conversions to and from bfloat16 on a GPU.
#include "kernels/tensor/cuda/bfloat16.h"

#include <cuda_runtime.h>

#include "kernels/tensor/bfloat16.h"
#include "kernels/tensor/cuda/elementwise.cuh"

namespace terngrad::cuda {
namespace {

struct Encode {
  __device__ std::uint16_t operator()(float value) const { return to_bfloat16(value); }
};

struct Decode {
  __device__ float operator()(std::uint16_t value) const { return from_bfloat16(value); }
};

struct Round {
  __device__ float operator()(float value) const { return from_bfloat16(to_bfloat16(value)); }
};

}  // namespace

void encode_bfloat16(std::span<const float> values, std::span<std::uint16_t> out, const Stream& stream) {
  transform(values.size(), stream, Encode(), out.data(), values.data());
}

void decode_bfloat16(std::span<const std::uint16_t> values, std::span<float> out, const Stream& stream) {
  transform(values.size(), stream, Decode(), out.data(), values.data());
}

void round_to_bfloat16(std::span<float> values, const Stream& stream) {
  transform(values.size(), stream, Round(), values.data(), values.data());
}

}  // namespace terngrad::cuda
