// Kernels with wrong barriers and shuffles; found by the emulation.
#include "defects/defect.h"

namespace terngrad::testing {
namespace {

using cuda::launch;

template <class Kernel>
void run(Kernel kernel, Stream& stream) {
  Buffer<float> memory = device_zeros<float>(256, stream);
  launch(kernel, dim3(1), dim3(256), 0, stream, memory.data());
  print_result(memory, stream);
}

__global__ void barrier_in_both_branches(float* out) {
  if (threadIdx.x < 32) {
    __syncthreads();
  } else {
    out[threadIdx.x] = 1;
    __syncthreads();
  }
}
void divergent_barrier(Stream& stream) { run(barrier_in_both_branches, stream); }

__global__ void shuffle_after_half_has_returned(float* out) {
  if (threadIdx.x % 2 == 1) return;
  out[threadIdx.x] = __shfl_xor_sync(~0u, out[threadIdx.x], 1);
}
void shuffle_after_return(Stream& stream) { run(shuffle_after_half_has_returned, stream); }

__global__ void shuffle_from_outside(float* out) {
  if (threadIdx.x % 32 < 16) out[threadIdx.x] = __shfl_down_sync(0xffffu, 1.0f, 8);
}
void shuffle_outside_mask(Stream& stream) { run(shuffle_from_outside, stream); }

__global__ void all_lanes_with_half_a_mask(float* out) { out[threadIdx.x] = __shfl_xor_sync(0xffffu, 1.0f, 1); }
void lane_not_in_mask(Stream& stream) { run(all_lanes_with_half_a_mask, stream); }

__global__ void shuffles_in_both_branches(float* out) {
  if (threadIdx.x % 2 == 0) {
    out[threadIdx.x] = __shfl_xor_sync(~0u, 1.0f, 1);
  } else {
    out[threadIdx.x] = __shfl_xor_sync(~0u, 2.0f, 1);
  }
}
void divergent_shuffle(Stream& stream) { run(shuffles_in_both_branches, stream); }

constexpr Defect kDefects[] = {
    {"divergent_barrier", divergent_barrier},       {"shuffle_after_return", shuffle_after_return},
    {"shuffle_outside_mask", shuffle_outside_mask}, {"lane_not_in_mask", lane_not_in_mask},
    {"divergent_shuffle", divergent_shuffle},
};

}  // namespace

std::span<const Defect> meeting_defects() { return kDefects; }

}  // namespace terngrad::testing
