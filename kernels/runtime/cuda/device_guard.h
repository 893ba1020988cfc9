// The device that the CUDA runtime's calls of a thread concern. For sources that see its headers only.
#pragma once

#include <cuda_runtime.h>

#include "kernels/runtime/cuda/check.h"

namespace terngrad::cuda {

/// Whether this process has a context on a device already. Since CUDA 12 cudaSetDevice makes one at once (CUDA Runtime
/// API, "Device Management"), of some 0.5 GB on an H100, so a device that nobody asked for is not to be made current.
/// The driver is asked through the runtime, so that nothing is linked against libcuda. A driver that does not say is
/// taken to have none.
inline bool has_context(int device) {
  using GetState = int (*)(int device, unsigned* flags, int* active);
  static const GetState get_state = [] {
    void* found = nullptr;
    cudaDriverEntryPointQueryResult result{};
    constexpr const char* kName = "cuDevicePrimaryCtxGetState";
#if CUDART_VERSION >= 12050
    const cudaError_t error = cudaGetDriverEntryPointByVersion(kName, &found, 7000, cudaEnableDefault, &result);
#else
    const cudaError_t error = cudaGetDriverEntryPoint(kName, &found, cudaEnableDefault, &result);
#endif
    if (error != cudaSuccess) static_cast<void>(cudaGetLastError());
    return error == cudaSuccess && result == cudaDriverEntryPointSuccess ? reinterpret_cast<GetState>(found) : nullptr;
  }();
  unsigned flags = 0;
  int active = 0;
  return get_state != nullptr && get_state(device, &flags, &active) == 0 && active != 0;
}

/// Makes a device current for the lifetime of the object. The one before is made current again only if the process has
/// a context there: a thread begins with device 0, and of eight processes with a GPU each none but the first shall have
/// a context on it. So a thread that works for one GPU keeps it from the first guard on.
/// @throws DeviceError if there is no such device
class DeviceGuard {
 public:
  explicit DeviceGuard(int device) {
    TERNGRAD_CUDA_CHECK(cudaGetDevice(&previous_));
    is_other_ = device != previous_;
    if (is_other_) TERNGRAD_CUDA_CHECK(cudaSetDevice(device));
  }
  ~DeviceGuard() {
    if (is_other_ && has_context(previous_)) static_cast<void>(cudaSetDevice(previous_));
  }
  DeviceGuard(const DeviceGuard&) = delete;
  DeviceGuard& operator=(const DeviceGuard&) = delete;

 private:
  int previous_ = 0;
  bool is_other_ = false;
};

/// For destructors and deleters: calls `work` with the device current. Errors are not said.
template <class Work>
void on_device(int device, const Work& work) noexcept {
  try {
    const DeviceGuard guard(device);
    work();
  } catch (const DeviceError&) {
    static_cast<void>(cudaGetLastError());
  }
}

}  // namespace terngrad::cuda
