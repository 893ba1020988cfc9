// The GPU that calls of a thread to CUDA's libraries concern.
#pragma once

#include "kernels/runtime/device.h"

namespace terngrad {

/// Makes a GPU current for the lifetime of the object; does nothing for the CPU. The one before is made current again
/// only if the process has a context there: a thread begins with GPU 0, and of eight processes with a GPU each none but
/// the first shall have a context on it. So a thread that works for one GPU keeps it from the first guard on.
/// @throws DeviceError if there is no such GPU
class DeviceGuard {
 public:
  explicit DeviceGuard(const Device& device);
  ~DeviceGuard();
  DeviceGuard(const DeviceGuard&) = delete;
  DeviceGuard& operator=(const DeviceGuard&) = delete;

 private:
  int previous_ = -1;  // -1: it is current still
};

}  // namespace terngrad
