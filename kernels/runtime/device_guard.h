// DeviceGuard: selects the current GPU of the calling thread.
#pragma once

#include "kernels/runtime/device.h"

namespace terngrad {

/// Makes a GPU current for the lifetime of the object; does nothing for the CPU. The destructor restores the previous
/// GPU only if the process already has a context on it. Threads start with GPU 0, and restoring it would create a
/// context on GPU 0 in every process of a machine. A thread that works for one GPU thus stays on it after its first
/// guard.
/// @throws DeviceError if there is no such GPU
class DeviceGuard {
 public:
  explicit DeviceGuard(const Device& device);
  ~DeviceGuard();
  DeviceGuard(const DeviceGuard&) = delete;
  DeviceGuard& operator=(const DeviceGuard&) = delete;

 private:
  int previous_ = -1;  // -1: the GPU was already current
};

}  // namespace terngrad
