// What lies behind Libraries. For sources that see the headers of cuDNN and cuBLASLt only.
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

/// Makes the GPU of a stream this thread's current one for the lifetime of the object: the libraries work on that.
class CurrentDevice {
 public:
  explicit CurrentDevice(const Stream& stream);
  ~CurrentDevice();
  CurrentDevice(const CurrentDevice&) = delete;
  CurrentDevice& operator=(const CurrentDevice&) = delete;

 private:
  int previous_ = 0;
  bool changed_ = false;
};

inline cudaStream_t native_stream(const Stream& stream) { return static_cast<cudaStream_t>(stream.native()); }

}  // namespace terngrad::cuda
