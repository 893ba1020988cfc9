#include "kernels/runtime/device_guard.h"

#include "kernels/runtime/cuda/runtime.h"

namespace terngrad {

DeviceGuard::DeviceGuard(const Device& device) {
  if (device.is_cuda()) previous_ = cuda::make_current(device.index());
}

DeviceGuard::~DeviceGuard() {
  if (previous_ >= 0) cuda::make_current_again(previous_);
}

}  // namespace terngrad
