// Concatenation of channels on a GPU.
#pragma once

#include <cstdint>

#include "kernels/runtime/device.h"

namespace terngrad::cuda {

// Pointers are device memory. Work is submitted to the stream; nothing is allocated or waited for.

/// Some neighbouring channels of [pixels, channels]: from `first` on.
template <class T>
struct Channels {
  T* data = nullptr;
  int channels = 0;
  int first = 0;
};

/// to[p, to.first + c] = from[p, from.first + c] for c < count, p < num_pixels. An input of a concatenation is all
/// channels of the one and some of the other; its gradient goes the other way.
/// @throws InvalidArgument for channels beyond those there are, or more than 2^30; DeviceError
void copy_channels(const Channels<const float>& from, const Channels<float>& to, int count, std::int64_t num_pixels,
                   const Stream& stream);

}  // namespace terngrad::cuda
