// Error check of CUDA runtime calls, for sources that include its headers.
#pragma once

#include <cuda_runtime.h>

#include "kernels/runtime/errors.h"

namespace terngrad::cuda {

/// @throws DeviceError with the call and the error's name and text. Clears the runtime's last error, so that the next
/// call reports its own.
inline void check(cudaError_t error, const char* call, const char* file, int line) {
  if (error == cudaSuccess) return;
  static_cast<void>(cudaGetLastError());
  TERNGRAD_THROW(DeviceError, "[cuda] ", call, " failed: ", cudaGetErrorName(error), " (", cudaGetErrorString(error),
                 "), at ", file, ":", line);
}

}  // namespace terngrad::cuda

#define TERNGRAD_CUDA_CHECK(call) ::terngrad::cuda::check((call), #call, __FILE__, __LINE__)
