// Concatenation of channels on a GPU.
#pragma once

#include <cstdint>

#include "kernels/runtime/device.h"

namespace terngrad::cuda {

// Pointers are device memory. Functions submit work to the stream and neither allocate nor wait.

/// The channels from `first` on of an array [pixels, channels].
template <class T>
struct Channels {
  T* data = nullptr;
  int channels = 0;
  int first = 0;
};

/// to[p, to.first + c] = from[p, from.first + c] for c < count, p < num_pixels. Copies an input to its channels of the
/// concatenation, or back for its gradient.
/// @throws InvalidArgument for channels out of range or more than 2^30; DeviceError
void copy_channels(const Channels<const float>& from, const Channels<float>& to, int count, std::int64_t num_pixels,
                   const Stream& stream);

}  // namespace terngrad::cuda
