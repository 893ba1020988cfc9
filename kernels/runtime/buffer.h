// Buffer<T>: a move-only owner of uninitialised device memory.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <type_traits>
#include <utility>

#include "kernels/runtime/device.h"

namespace terngrad {

namespace detail {
/// Allocates uninitialized memory for `count` values of `value_bytes` bytes on `device`, on the CPU aligned to
/// `kBufferAlignment`. Returns null for count 0.
/// @throws std::bad_alloc for a negative count or if the host is out of memory; DeviceError if a GPU is
void* allocate(const Device& device, std::int64_t count, std::size_t value_bytes);
void deallocate(const Device& device, void* memory) noexcept;
}  // namespace detail

/// Advises the system to back untouched host memory with huge pages: faulting in 4 KiB pages would cost more than the
/// work on them. Does nothing below 4 MiB or if the system has no huge pages.
void prefer_huge_pages(void* memory, std::size_t bytes) noexcept;

/// Alignment of host buffers: at least a cache line and the widest vector of any CPU target.
inline constexpr std::size_t kBufferAlignment = 128;

/// Owns `num_elements` uninitialized values of T on a device. Not copyable: a copy would need a stream.
template <class T>
class Buffer {
  static_assert(std::is_trivially_copyable_v<T>, "device memory holds plain values only");

 public:
  Buffer() : device_(Device::cpu()) {}
  explicit Buffer(std::int64_t num_elements, Device device = Device::cpu())
      : device_(device),
        data_(static_cast<T*>(detail::allocate(device, num_elements, sizeof(T)))),
        num_elements_(num_elements) {}
  Buffer(Buffer&& other) noexcept : device_(other.device_) { swap(other); }
  Buffer& operator=(Buffer&& other) noexcept {
    swap(other);
    return *this;
  }
  Buffer(const Buffer&) = delete;
  Buffer& operator=(const Buffer&) = delete;
  ~Buffer() { detail::deallocate(device_, data_); }

  const Device& device() const { return device_; }
  T* data() { return data_; }
  const T* data() const { return data_; }
  std::int64_t num_elements() const { return num_elements_; }
  std::span<T> span() { return {data_, static_cast<std::size_t>(num_elements_)}; }
  std::span<const T> span() const { return {data_, static_cast<std::size_t>(num_elements_)}; }

 private:
  void swap(Buffer& other) noexcept {
    std::swap(device_, other.device_);
    std::swap(data_, other.data_);
    std::swap(num_elements_, other.num_elements_);
  }
  Device device_;
  T* data_ = nullptr;
  std::int64_t num_elements_ = 0;
};

/// A host buffer filled with zero bytes.
template <class T>
Buffer<T> zeros(std::int64_t num_elements);

}  // namespace terngrad

#include <cstring>

template <class T>
terngrad::Buffer<T> terngrad::zeros(std::int64_t num_elements) {
  Buffer<T> buffer(num_elements);
  if (num_elements > 0) std::memset(buffer.data(), 0, static_cast<std::size_t>(num_elements) * sizeof(T));
  return buffer;
}
