// Kernels with data races; found by the thread sanitizer, some also by another order of threads.
#include "defects/defect.h"

namespace terngrad::testing {
namespace {

using cuda::launch;

template <class T>
void run(void (*kernel)(T*), unsigned num_blocks, Stream& stream) {
  Buffer<T> memory = device_zeros<T>(256, stream);
  launch(kernel, dim3(num_blocks), dim3(256), 0, stream, memory.data());
  print_result(memory, stream);
}

__global__ void read_another_warps_value(float* out) {
  __shared__ float values[256];
  values[threadIdx.x] = static_cast<float>(threadIdx.x);
  out[threadIdx.x] = values[threadIdx.x ^ 32];
}
void missing_barrier(Stream& stream) { run(read_another_warps_value, 1, stream); }

__global__ void write_again_too_early(float* out) {
  __shared__ float of_warp[8];
  const unsigned warp = threadIdx.x / 32;
  for (unsigned round = 0; round < 2; ++round) {
    if (threadIdx.x % 32 == 0) of_warp[warp] = static_cast<float>(threadIdx.x + round);
    __syncthreads();
    out[threadIdx.x] += of_warp[warp ^ 1];
  }
}
void missing_barrier_before_reuse(Stream& stream) { run(write_again_too_early, 1, stream); }

__global__ void read_another_lanes_value(float* out) {
  __shared__ float values[256];
  values[threadIdx.x] = static_cast<float>(threadIdx.x);
  out[threadIdx.x] = values[threadIdx.x ^ 1];
}
void missing_syncwarp(Stream& stream) { run(read_another_lanes_value, 1, stream); }

__global__ void shuffle_is_no_fence(float* out) {
  __shared__ float values[256];
  values[threadIdx.x] = static_cast<float>(threadIdx.x);
  out[threadIdx.x] = __shfl_sync(~0u, 1.0f, 0) + values[threadIdx.x ^ 1];
}
void shuffle_as_fence(Stream& stream) { run(shuffle_is_no_fence, 1, stream); }

__global__ void count_in_histogram(int* out) { out[threadIdx.x & 7] += 1; }
void histogram_without_atomics(Stream& stream) { run(count_in_histogram, 1, stream); }

__global__ void last_block_wins(float* out) {
  if (threadIdx.x == blockIdx.x) out[0] = static_cast<float>(blockIdx.x);
}
void blocks_write_one_value(Stream& stream) { run(last_block_wins, 4, stream); }

__global__ void first_threads_add(float* out) {
  if (threadIdx.x == 0) out[0] += 1;
}
void blocks_add_to_one_value(Stream& stream) { run(first_threads_add, 4, stream); }

constexpr Defect kDefects[] = {
    {"missing_barrier", missing_barrier},
    {"missing_barrier_before_reuse", missing_barrier_before_reuse},
    {"missing_syncwarp", missing_syncwarp},
    {"shuffle_as_fence", shuffle_as_fence},
    {"histogram_without_atomics", histogram_without_atomics},
    {"blocks_write_one_value", blocks_write_one_value},
    {"blocks_add_to_one_value", blocks_add_to_one_value},
};

}  // namespace

std::span<const Defect> race_defects() { return kDefects; }

}  // namespace terngrad::testing
