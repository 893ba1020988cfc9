// Asynchronous uploads and event queries without the CUDA headers. The events are those of runtime.h.
#pragma once

#include <cstddef>

#include "kernels/runtime/device.h"

namespace terngrad::cuda {

/// Asynchronous copy of page-locked host memory, which must not change until the stream has run the copy.
void upload(void* to, const void* from, std::size_t bytes, const Stream& stream);

/// True if the point last recorded in `event` was reached; does not wait. @throws DeviceError for an earlier failure
bool has_come(void* event);
/// Blocks the host until the point last recorded in `event` is reached.
void wait_until_come(void* event);

}  // namespace terngrad::cuda
