// The check of every call to the CUDA runtime. For sources that see its headers only.
#pragma once

#include <cuda_runtime.h>

#include "kernels/runtime/errors.h"

namespace terngrad::cuda {

/// @throws DeviceError with the call, the error's name and text. The runtime's sticky state is cleared, so that the
/// next call reports its own error.
inline void check(cudaError_t error, const char* call, const char* file, int line) {
  if (error == cudaSuccess) return;
  static_cast<void>(cudaGetLastError());
  TERNGRAD_THROW(DeviceError, "[cuda] ", call, " failed: ", cudaGetErrorName(error), " (", cudaGetErrorString(error),
                 "), at ", file, ":", line);
}

/// Makes a device current for the lifetime of the object.
class DeviceGuard {
 public:
  explicit DeviceGuard(int device) {
    check(cudaGetDevice(&previous_), "cudaGetDevice", __FILE__, __LINE__);
    if (device != previous_) check(cudaSetDevice(device), "cudaSetDevice", __FILE__, __LINE__);
    changed_ = device != previous_;
  }
  ~DeviceGuard() {
    if (changed_) static_cast<void>(cudaSetDevice(previous_));
  }
  DeviceGuard(const DeviceGuard&) = delete;
  DeviceGuard& operator=(const DeviceGuard&) = delete;

 private:
  int previous_ = 0;
  bool changed_ = false;
};

}  // namespace terngrad::cuda

#define TERNGRAD_CUDA_CHECK(call) ::terngrad::cuda::check((call), #call, __FILE__, __LINE__)
