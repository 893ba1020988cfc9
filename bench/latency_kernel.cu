#include <cuda_runtime.h>

#include <cstdint>

#include "bench/cuda_harness.h"
#include "kernels/runtime/cuda/launch.cuh"

namespace terngrad::bench {
namespace {

/// Every thread follows `next` from its own element, each load waiting for the one before.
__global__ void latency_kernel(const std::uint32_t* next, int links, std::uint32_t* out) {
  std::uint32_t at = threadIdx.x;
#pragma unroll 1
  for (int link = 0; link < links; ++link) at = next[at];
  if (blockIdx.x == 0) out[threadIdx.x] = at;
}

}  // namespace

void launch_latency_kernel(const Buffer<std::uint32_t>& next, int links, Buffer<std::uint32_t>& out, Stream& stream) {
  cuda::launch(latency_kernel, dim3(132), dim3(kLatencyThreads), 0, stream, next.data(), links, out.data());
}

}  // namespace terngrad::bench
