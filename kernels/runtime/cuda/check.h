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

}  // namespace terngrad::cuda

#define TERNGRAD_CUDA_CHECK(call) ::terngrad::cuda::check((call), #call, __FILE__, __LINE__)
