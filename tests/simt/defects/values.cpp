// Kernels with undefined behaviour, or that read uninitialized memory.
#include "defects/defect.h"

namespace terngrad::testing {
namespace {

using cuda::launch;

__global__ void store_at_odd_address(float* out, unsigned at) {
  reinterpret_cast<float4*>(out + at)[threadIdx.x].x = 1;
}
void misaligned_vector(Stream& stream) {
  Buffer<float> memory = device_zeros<float>(1028, stream);
  launch(store_at_odd_address, dim3(1), dim3(256), 0, stream, memory.data(), 1u);
  print_result(memory, stream);
}

__global__ void shift_by_thread(unsigned* out) { out[threadIdx.x] = 1u << threadIdx.x; }
void shift_too_far(Stream& stream) {
  Buffer<unsigned> memory = device_zeros<unsigned>(256, stream);
  launch(shift_by_thread, dim3(1), dim3(256), 0, stream, memory.data());
  print_result(memory, stream);
}

__global__ void add_thread(int* out, int first) { out[threadIdx.x] = static_cast<int>(threadIdx.x) + first; }
void signed_overflow(Stream& stream) {
  Buffer<int> memory = device_zeros<int>(256, stream);
  launch(add_thread, dim3(1), dim3(256), 0, stream, memory.data(), 0x7fffffc0);
  print_result(memory, stream);
}

__global__ void half_is_written(float* out) {
  __shared__ float values[256];
  if (threadIdx.x < 128) values[threadIdx.x] = 1;
  __syncthreads();
  out[threadIdx.x] = values[threadIdx.x];
}
void undefined_shared(Stream& stream) {
  Buffer<float> memory = device_zeros<float>(256, stream);
  launch(half_is_written, dim3(1), dim3(256), 0, stream, memory.data());
  print_result(memory, stream);
}

__global__ void copy_values(const float* in, float* out) { out[threadIdx.x] = in[threadIdx.x]; }
void undefined_global(Stream& stream) {
  Buffer<float> memory = device_zeros<float>(256, stream);
  const Buffer<float> in(256, stream.device());
  launch(copy_values, dim3(1), dim3(256), 0, stream, in.data(), memory.data());
  print_result(memory, stream);
}

constexpr Defect kDefects[] = {
    {"misaligned_vector", misaligned_vector}, {"shift_too_far", shift_too_far},
    {"signed_overflow", signed_overflow},     {"undefined_shared", undefined_shared},
    {"undefined_global", undefined_global},
};

}  // namespace

std::span<const Defect> value_defects() { return kDefects; }

}  // namespace terngrad::testing
