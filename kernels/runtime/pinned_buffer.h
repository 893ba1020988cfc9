// PinnedBuffer<T>: page-locked host memory for direct copies to and from a GPU.
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <span>
#include <type_traits>
#include <utility>

#include "kernels/runtime/device.h"

namespace terngrad {

namespace detail {
/// Allocates page-locked memory for `count` values of `value_bytes` bytes. @throws as PinnedBuffer's constructor
std::shared_ptr<void> allocate_pinned(const Device& device, std::int64_t count, std::size_t value_bytes);
void upload_bytes(void* to, const void* from, std::size_t to_bytes, std::size_t from_bytes, const Stream& stream);
}  // namespace detail

/// Owns `num_elements` uninitialized values of T in page-locked host memory, which a GPU copies from and to without a
/// staging copy. Page-locked memory is a limited resource of the machine: use it for data copied in every step.
template <class T>
class PinnedBuffer {
  static_assert(std::is_trivially_copyable_v<T>, "memory holds plain values only");

 public:
  PinnedBuffer() = default;
  /// @param device  a GPU
  /// @throws InvalidArgument for the CPU, std::bad_alloc for a negative count, DeviceError if the machine has no
  /// page-locked memory left
  PinnedBuffer(std::int64_t num_elements, const Device& device)
      : memory_(detail::allocate_pinned(device, num_elements, sizeof(T))), num_elements_(num_elements) {}
  PinnedBuffer(PinnedBuffer&& other) noexcept
      : memory_(std::move(other.memory_)), num_elements_(std::exchange(other.num_elements_, 0)) {}
  PinnedBuffer& operator=(PinnedBuffer&& other) noexcept {
    memory_ = std::move(other.memory_);
    num_elements_ = std::exchange(other.num_elements_, 0);
    return *this;
  }
  PinnedBuffer(const PinnedBuffer&) = delete;
  PinnedBuffer& operator=(const PinnedBuffer&) = delete;
  ~PinnedBuffer() = default;

  std::int64_t num_elements() const { return num_elements_; }
  T* data() { return static_cast<T*>(memory_.get()); }
  std::span<T> span() { return {data(), static_cast<std::size_t>(num_elements_)}; }

 private:
  std::shared_ptr<void> memory_;
  std::int64_t num_elements_ = 0;
};

/// to[i] = from[i], in stream order and without waiting. `from` is page-locked memory that must not change until the
/// stream has run the copy (StreamEvent). On the CPU any memory will do, and the copy is immediate.
/// @throws InvalidArgument if lengths differ, DeviceError
template <class T>
void upload(std::type_identity_t<std::span<const T>> from, std::span<T> to, const Stream& stream) {
  static_assert(std::is_trivially_copyable_v<T>, "only plain values can be copied between devices");
  detail::upload_bytes(to.data(), from.data(), to.size_bytes(), from.size_bytes(), stream);
}

}  // namespace terngrad
