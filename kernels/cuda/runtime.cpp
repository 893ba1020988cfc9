#include "kernels/cuda/runtime.h"

#include <cuda_runtime.h>

#include "kernels/cuda/check.h"
#include "kernels/errors.h"

namespace terngrad::cuda {
namespace {

cudaStream_t native(const Stream& stream) { return static_cast<cudaStream_t>(stream.native()); }

}  // namespace

int num_devices() {
  // Without a driver the call fails and leaves its argument alone.
  int count = 0;
  const cudaError_t error = cudaGetDeviceCount(&count);
  if (error == cudaSuccess) return count;
  static_cast<void>(cudaGetLastError());
  return 0;
}

std::string why_no_device() {
  int count = 0;
  const cudaError_t error = cudaGetDeviceCount(&count);
  static_cast<void>(cudaGetLastError());
  if (error == cudaSuccess) return count > 0 ? "" : "the driver reports no device";
  return std::string(cudaGetErrorName(error)) + " (" + cudaGetErrorString(error) + ")";
}

void* allocate(int device, std::size_t bytes) {
  const DeviceGuard guard(device);
  void* memory = nullptr;
  const cudaError_t error = cudaMalloc(&memory, bytes);
  if (error == cudaErrorMemoryAllocation) {
    static_cast<void>(cudaGetLastError());
    TERNGRAD_THROW(DeviceError, "[Buffer] out of memory on cuda:", device, ": ", bytes, " bytes asked for");
  }
  TERNGRAD_CUDA_CHECK(error);
  return memory;
}

void deallocate(int, void* memory) noexcept { static_cast<void>(cudaFree(memory)); }

std::shared_ptr<void> make_stream(int device) {
  const DeviceGuard guard(device);
  cudaStream_t stream = nullptr;
  TERNGRAD_CUDA_CHECK(cudaStreamCreateWithFlags(&stream, cudaStreamNonBlocking));
  return {stream, [](void* owned) { static_cast<void>(cudaStreamDestroy(static_cast<cudaStream_t>(owned))); }};
}

void synchronize(const Stream& stream) { TERNGRAD_CUDA_CHECK(cudaStreamSynchronize(native(stream))); }

bool is_capturing(const Stream& stream) {
  cudaStreamCaptureStatus status = cudaStreamCaptureStatusNone;
  TERNGRAD_CUDA_CHECK(cudaStreamIsCapturing(native(stream), &status));
  return status != cudaStreamCaptureStatusNone;
}

void copy(void* to, const void* from, std::size_t bytes, const Stream& stream) {
  if (bytes > 0) TERNGRAD_CUDA_CHECK(cudaMemcpyAsync(to, from, bytes, cudaMemcpyDefault, native(stream)));
}

void fill_zero(void* memory, std::size_t bytes, const Stream& stream) {
  if (bytes > 0) TERNGRAD_CUDA_CHECK(cudaMemsetAsync(memory, 0, bytes, native(stream)));
}

}  // namespace terngrad::cuda
