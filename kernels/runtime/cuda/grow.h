// Grows device memory on demand.
#pragma once

#include <cstdint>

#include "kernels/runtime/buffer.h"
#include "kernels/runtime/cuda/runtime.h"
#include "kernels/runtime/errors.h"

namespace terngrad::cuda {

/// Ensures room for at least `count` values on the stream's device. Growing waits for the stream and discards the
/// contents; otherwise nothing is allocated and the host does not wait.
/// @returns true if the memory is new and uninitialized
/// @throws InvalidArgument if it would have to grow during graph capture: run the work once before the capture
template <class T>
bool grow(Buffer<T>& buffer, std::int64_t count, Stream& stream) {
  if (buffer.num_elements() >= count) return false;
  TERNGRAD_REQUIRE(!cuda::is_capturing(stream),
                   "[cuda] memory is missing while the stream is captured: run once before");
  if (buffer.num_elements() > 0) stream.synchronize();
  buffer = Buffer<T>(count, stream.device());
  return true;
}

}  // namespace terngrad::cuda
