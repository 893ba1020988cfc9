#include "nets/cuda/libraries.h"

#include "kernels/runtime/device_guard.h"
#include "kernels/runtime/errors.h"
#include "nets/cuda/cublas_lt_api.h"
#include "nets/cuda/cudnn_graph.h"
#include "nets/cuda/library_handles.h"

namespace terngrad::cuda {
namespace {

void check_runtime(cudaError_t error, const char* call) {
  if (error == cudaSuccess) return;
  static_cast<void>(cudaGetLastError());
  TERNGRAD_THROW(DeviceError, "[Libraries] ", call, " failed: ", cudaGetErrorName(error), " (",
                 cudaGetErrorString(error), ")");
}

/// Version text: cuDNN 9.19.0 is 91900, cuBLASLt 13.1.2 is 130102.
std::string text_of(std::size_t version) {
  return std::to_string(version / 10000) + "." + std::to_string(version / 100 % 100) + "." +
         std::to_string(version % 100);
}

}  // namespace

Libraries::Handles::Handles(const Stream& stream) {
  const DeviceGuard guard(stream.device());
  check_cudnn(cudnnCreate(&cudnn), "cudnnCreate");
  // The destructor does not run if the constructor throws.
  try {
    check_cudnn(cudnnSetStream(cudnn, native_stream(stream)), "cudnnSetStream");
    const cublasStatus_t status = cublas_lt_api().create(&cublas_lt);
    if (status != CUBLAS_STATUS_SUCCESS) {
      TERNGRAD_THROW(DeviceError, "[Libraries] cublasLtCreate failed: ", cublas_lt_api().get_status_string(status));
    }
  } catch (...) {
    static_cast<void>(cudnnDestroy(cudnn));
    throw;
  }
}

Libraries::Handles::~Handles() {
  static_cast<void>(cublas_lt_api().destroy(cublas_lt));
  static_cast<void>(cudnnDestroy(cudnn));
}

Libraries::Libraries(const Stream& stream) : stream_(stream) {
  TERNGRAD_REQUIRE(stream.device().is_cuda(),
                   "[Libraries] cuDNN and cuBLASLt need the stream of a GPU, this is one of ", stream.device().name());
  handles_ = std::make_shared<Handles>(stream);
}

std::string Libraries::why_missing() {
  try {
    cublas_lt_api();
    return "";
  } catch (const NotSupported& error) {
    return error.what();
  }
}

std::string Libraries::versions() {
  return "cuDNN " + text_of(cudnnGetVersion()) + ", cuBLASLt " + text_of(cublas_lt_api().get_version());
}

std::string Libraries::versions_of_build() {
  return "cuDNN " + text_of(cudnnGetVersion()) + ", cuBLASLt " + std::to_string(CUBLAS_VER_MAJOR);
}

}  // namespace terngrad::cuda
