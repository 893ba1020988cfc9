// Device memory that grows where a call needs more of it than those before.
#pragma once

#include <cstdint>

#include "kernels/runtime/buffer.h"
#include "kernels/runtime/cuda/runtime.h"
#include "kernels/runtime/errors.h"

namespace terngrad::cuda {

/// Memory for at least `count` values on the stream's device. What the buffer held is lost where it grows, and kernels
/// that the stream was given have run by then; else nothing is allocated and the host does not wait.
/// @returns whether the memory is new, and its contents arbitrary
/// @throws InvalidArgument if it would have to grow while the stream is captured into a graph: run once before
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
