// Implementation of Libraries. Include it only in sources that may include the headers of cuDNN and cuBLASLt.
#pragma once

#include <cublasLt.h>
#include <cuda_runtime.h>
#include <cudnn.h>

#include "nets/cuda/libraries.h"

namespace terngrad::cuda {

struct Libraries::Handles {
  explicit Handles(const Stream& stream);
  ~Handles();
  Handles(const Handles&) = delete;
  Handles& operator=(const Handles&) = delete;

  cudnnHandle_t cudnn = nullptr;  // submits to the stream
  cublasLtHandle_t cublas_lt = nullptr;
};

inline cudaStream_t native_stream(const Stream& stream) { return static_cast<cudaStream_t>(stream.native()); }

}  // namespace terngrad::cuda
