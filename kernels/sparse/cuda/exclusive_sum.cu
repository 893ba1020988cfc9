// CUB's scan; in the emulation on the CPU (tests/simt), which CUB cannot be compiled for, a plain loop of one thread.
#include "kernels/sparse/cuda/exclusive_sum.h"

#include <cuda_runtime.h>

#include "kernels/runtime/cuda/launch.cuh"
#include "kernels/runtime/cuda/runtime.h"
#ifndef SIMT_EMULATION
#include <cub/device/device_scan.cuh>
#endif

namespace terngrad::cuda {

ExclusiveSum::ExclusiveSum(const Device& device) : temporary_(0, device) {}

#ifdef SIMT_EMULATION
namespace {

__global__ void exclusive_sum_kernel(const std::uint64_t* in, std::uint64_t* out, std::int64_t count) {
  std::uint64_t sum = 0;
  for (std::int64_t i = 0; i < count; ++i) {
    out[i] = sum;
    sum += in[i];
  }
}

}  // namespace

void ExclusiveSum::run(const std::uint64_t* in, std::uint64_t* out, std::int64_t count, Stream& stream) {
  launch(exclusive_sum_kernel, dim3(count > 0 ? 1 : 0), dim3(1), 0, stream, in, out, count);
}
#else
void ExclusiveSum::run(const std::uint64_t* in, std::uint64_t* out, std::int64_t count, Stream& stream) {
  if (count == 0) return;
  const DeviceGuard guard(stream.device());
  auto* const native = static_cast<cudaStream_t>(stream.native());
  std::size_t bytes = 0;
  TERNGRAD_CUDA_CHECK(cub::DeviceScan::ExclusiveSum(nullptr, bytes, in, out, count, native));
  if (static_cast<std::int64_t>(bytes) > temporary_.num_elements()) {
    TERNGRAD_REQUIRE(!is_capturing(stream), "[cuda] memory is missing while the stream is captured: run once before");
    // What reads the old memory must have run before it is freed.
    if (temporary_.num_elements() > 0) stream.synchronize();
    temporary_ = Buffer<std::uint8_t>(static_cast<std::int64_t>(bytes), stream.device());
  }
  TERNGRAD_CUDA_CHECK(cub::DeviceScan::ExclusiveSum(temporary_.data(), bytes, in, out, count, native));
}
#endif

}  // namespace terngrad::cuda
