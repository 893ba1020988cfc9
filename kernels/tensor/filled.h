// Creates a buffer filled with one value, on any device.
#pragma once

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <vector>

#include "kernels/runtime/buffer.h"
#include "kernels/runtime/copy.h"

namespace terngrad {

/// A buffer with `value` in every element. On a GPU, waits for the copy.
inline Buffer<float> make_filled(std::int64_t num_elements, float value, const Device& device) {
  Buffer<float> buffer(num_elements, device);
  if (device.is_cpu()) {
    std::ranges::fill(buffer.span(), value);
    return buffer;
  }
  const std::vector<float> values(static_cast<std::size_t>(num_elements), value);
  Stream stream(device, 1);
  copy<float>(values, buffer.span(), stream);
  stream.synchronize();
  return buffer;
}

}  // namespace terngrad
