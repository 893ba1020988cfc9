// What uploads beside other work need of the CUDA runtime, without its headers. As runtime.h, whose events these are.
#pragma once

#include <cstddef>

#include "kernels/runtime/device.h"

namespace terngrad::cuda {

/// Asynchronous copy of page-locked host memory, which stays as it is until the stream has come so far.
void upload(void* to, const void* from, std::size_t bytes, const Stream& stream);

/// Whether what `event` was recorded behind last has run. @throws DeviceError for an earlier failure
bool has_come(void* event);
/// The host waits for it.
void wait_until_come(void* event);

}  // namespace terngrad::cuda
