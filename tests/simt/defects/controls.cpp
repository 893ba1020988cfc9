// Correct kernels, similar to those with defects.
#include "defects/defect.h"
#include "kernels/tensor/cuda/reduce.cuh"

namespace terngrad::testing {
namespace {

using cuda::launch;

constexpr unsigned kThreads = 256;
constexpr unsigned kBlocks = 4;

__global__ void reduce_twice(float* out) {
  const auto value = static_cast<float>(threadIdx.x);
  const auto add = [](float a, float b) { return a + b; };
  const float once = cuda::block_reduce<kThreads>(value, add);
  const float twice = cuda::block_reduce<kThreads>(value * value, add);
  unsigned total;
  const unsigned before = cuda::block_exclusive_sum<kThreads>(threadIdx.x, total);
  if (threadIdx.x == 0) out[blockIdx.x * kThreads] = once + twice;
  if (threadIdx.x > 0) out[blockIdx.x * kThreads + threadIdx.x] = static_cast<float>(before + total);
}
void reductions(Stream& stream) {
  Buffer<float> memory = device_zeros<float>(kBlocks * kThreads, stream);
  launch(reduce_twice, dim3(kBlocks), dim3(kThreads), 0, stream, memory.data());
  print_result(memory, stream);
}

/// Needs no barrier at the end: each block has its own shared memory.
__global__ void exchange(float* out) {
  __shared__ float values[kThreads];
  values[threadIdx.x] = static_cast<float>(threadIdx.x);
  __syncthreads();
  out[blockIdx.x * kThreads + threadIdx.x] = values[threadIdx.x ^ 77];
}
void no_barrier_at_the_end(Stream& stream) {
  Buffer<float> memory = device_zeros<float>(kBlocks * kThreads, stream);
  launch(exchange, dim3(kBlocks), dim3(kThreads), 0, stream, memory.data());
  print_result(memory, stream);
}

__global__ void last_block_adds(float* out, int* ticket) {
  __shared__ bool last;
  if (threadIdx.x == 0) {
    out[1 + blockIdx.x] = static_cast<float>(blockIdx.x);
    __threadfence();
    last = atomicAdd(ticket, 1) == static_cast<int>(gridDim.x) - 1;
  }
  __syncthreads();
  if (!last || threadIdx.x != 0) return;
  float sum = 0;
  for (unsigned block = 0; block < gridDim.x; ++block) sum += out[1 + block];
  out[0] = sum;
}
void last_block(Stream& stream) {
  Buffer<float> memory = device_zeros<float>(1 + kBlocks, stream);
  Buffer<int> ticket = device_zeros<int>(1, stream);
  launch(last_block_adds, dim3(kBlocks), dim3(kThreads), 0, stream, memory.data(), ticket.data());
  print_result(memory, stream);
}

__global__ void count(const int* in, int n, int* out) {
  __shared__ int bins[8];
  if (threadIdx.x < 8) bins[threadIdx.x] = 0;
  __syncthreads();
  const auto i = static_cast<int>(blockIdx.x * blockDim.x + threadIdx.x);
  if (i < n) atomicAdd(&bins[in[i] & 7], 1);
  __syncthreads();
  if (threadIdx.x < 8) atomicAdd(&out[threadIdx.x], bins[threadIdx.x]);
}
void histogram(Stream& stream) {
  const Buffer<int> in = device_zeros<int>(1000, stream);
  Buffer<int> memory = device_zeros<int>(8, stream);
  launch(count, dim3(kBlocks), dim3(kThreads), 0, stream, in.data(), 1000, memory.data());
  print_result(memory, stream);
}

__global__ void exchange_in_halves(float* out) {
  __shared__ float values[kThreads];
  values[threadIdx.x] = static_cast<float>(threadIdx.x);
  __syncwarp();
  out[threadIdx.x] = values[threadIdx.x ^ 1];
  // The halves of a warp diverge, each with its own mask.
  if (threadIdx.x % 32 < 16) {
    out[threadIdx.x] += __shfl_xor_sync(0xffffu, out[threadIdx.x], 3);
  } else {
    out[threadIdx.x] += __shfl_xor_sync(0xffff0000u, out[threadIdx.x], 5);
  }
}
void halves_of_a_warp(Stream& stream) {
  Buffer<float> memory = device_zeros<float>(kThreads, stream);
  launch(exchange_in_halves, dim3(1), dim3(kThreads), 0, stream, memory.data());
  print_result(memory, stream);
}

constexpr Defect kControls[] = {
    {"reductions", reductions}, {"no_barrier_at_the_end", no_barrier_at_the_end}, {"last_block", last_block},
    {"histogram", histogram},   {"halves_of_a_warp", halves_of_a_warp},
};

}  // namespace

std::span<const Defect> controls() { return kControls; }

}  // namespace terngrad::testing
