// Kernels that access memory out of bounds; found by the address sanitizer.
#include "defects/defect.h"

namespace terngrad::testing {
namespace {

using cuda::dynamic_shared;
using cuda::launch;

__global__ void guard_lets_one_too_many_write(float* out, int count) {
  const auto i = static_cast<int>(blockIdx.x * blockDim.x + threadIdx.x);
  if (i <= count) out[i] = 1;
}
void global_write(Stream& stream) {
  Buffer<float> memory = device_zeros<float>(256, stream);
  launch(guard_lets_one_too_many_write, dim3(2), dim3(256), 0, stream, memory.data(), 256);
  print_result(memory, stream);
}

__global__ void guard_lets_one_too_many_read(const float4* in, float* out, int count) {
  const auto i = static_cast<int>(threadIdx.x);
  if (i <= count) out[i] = in[i].w;
}
void global_vector_read(Stream& stream) {
  Buffer<float4> in = device_zeros<float4>(64, stream);
  Buffer<float> memory = device_zeros<float>(256, stream);
  launch(guard_lets_one_too_many_read, dim3(1), dim3(256), 0, stream, in.data(), memory.data(), 64);
  print_result(memory, stream);
}

__global__ void read_freed(const float* in, float* out) { out[threadIdx.x] = in[threadIdx.x]; }
void freed_memory(Stream& stream) {
  Buffer<float> memory = device_zeros<float>(256, stream);
  const float* freed = device_zeros<float>(256, stream).data();
  launch(read_freed, dim3(1), dim3(256), 0, stream, freed, memory.data());
  print_result(memory, stream);
}

__global__ void write_beyond_static_shared(float* out, unsigned at) {
  __shared__ float values[64];
  values[threadIdx.x + at] = 1;
  __syncthreads();
  if (threadIdx.x == 0) out[0] = values[at];
}
void static_shared(Stream& stream) {
  Buffer<float> memory = device_zeros<float>(256, stream);
  launch(write_beyond_static_shared, dim3(1), dim3(64), 0, stream, memory.data(), 1u);
  print_result(memory, stream);
}

__global__ void write_beyond_shared_by_pointer(float* out, unsigned at) {
  __shared__ float4 groups[16];
  auto* values = reinterpret_cast<float*>(groups);
  values[threadIdx.x + at] = 1;
  __syncthreads();
  if (threadIdx.x == 0) out[0] = values[at];
}
void shared_by_pointer(Stream& stream) {
  Buffer<float> memory = device_zeros<float>(256, stream);
  launch(write_beyond_shared_by_pointer, dim3(1), dim3(64), 0, stream, memory.data(), 1u);
  print_result(memory, stream);
}

__global__ void write_beyond_dynamic_shared(float* out, unsigned at) {
  auto* values = dynamic_shared<float>();
  values[threadIdx.x + at] = 1;
  __syncthreads();
  if (threadIdx.x == 0) out[0] = values[at];
}
void dynamic_shared_memory(Stream& stream) {
  Buffer<float> memory = device_zeros<float>(256, stream);
  launch(write_beyond_dynamic_shared, dim3(1), dim3(256), 256 * sizeof(float), stream, memory.data(), 1u);
  print_result(memory, stream);
}

__global__ void read_beyond_local(float* out, unsigned at) {
  float values[8];
  for (int i = 0; i < 8; ++i) values[i] = static_cast<float>(i);
  out[threadIdx.x] = values[(threadIdx.x + at) & 15];
}
void local_array(Stream& stream) {
  Buffer<float> memory = device_zeros<float>(256, stream);
  launch(read_beyond_local, dim3(1), dim3(256), 0, stream, memory.data(), 1u);
  print_result(memory, stream);
}

__global__ void fill_a_huge_local_array(float* out, int step) {
  volatile char values[300000];
  for (int i = 0; i < 300000; i += step) values[299999 - i] = 1;
  out[threadIdx.x] = static_cast<float>(values[0]);
}
void stack_overflow(Stream& stream) {
  Buffer<float> memory = device_zeros<float>(256, stream);
  launch(fill_a_huge_local_array, dim3(1), dim3(256), 0, stream, memory.data(), 1);
  print_result(memory, stream);
}

constexpr Defect kDefects[] = {
    {"global_write", global_write},
    {"global_vector_read", global_vector_read},
    {"freed_memory", freed_memory},
    {"static_shared", static_shared},
    {"shared_by_pointer", shared_by_pointer},
    {"dynamic_shared", dynamic_shared_memory},
    {"local_array", local_array},
    {"stack_overflow", stack_overflow},
};

}  // namespace

std::span<const Defect> bounds_defects() { return kDefects; }

}  // namespace terngrad::testing
