// Copies between host and device memory.
#pragma once

#include <cstddef>
#include <span>
#include <type_traits>

#include "kernels/runtime/device.h"

namespace terngrad {

namespace detail {
void copy_bytes(void* to, const void* from, std::size_t to_bytes, std::size_t from_bytes, Stream& stream);
void zero_bytes(void* memory, std::size_t bytes, Stream& stream);
}  // namespace detail

/// to[i] = from[i], in stream order. On a GPU's stream either side may be host or device memory. A host source may be
/// reused as soon as the call returns; a host destination is valid after stream.synchronize(). On the CPU both are host
/// memory and must not overlap.
/// @throws InvalidArgument if lengths differ, DeviceError
template <class T>
void copy(std::type_identity_t<std::span<const T>> from, std::span<T> to, Stream& stream) {
  static_assert(std::is_trivially_copyable_v<T>, "only plain values can be copied between devices");
  detail::copy_bytes(to.data(), from.data(), to.size_bytes(), from.size_bytes(), stream);
}

/// Sets every byte to zero, in stream order.
template <class T>
void fill_zero(std::span<T> values, Stream& stream) {
  static_assert(std::is_trivially_copyable_v<T>, "only plain values are made of bytes");
  detail::zero_bytes(values.data(), values.size_bytes(), stream);
}

}  // namespace terngrad
