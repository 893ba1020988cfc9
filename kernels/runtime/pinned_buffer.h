// PinnedBuffer<T>: host memory that a GPU copies from and to by itself.
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
/// Owned room for `count` values of `value_bytes` bytes. @throws as PinnedBuffer's constructor
std::shared_ptr<void> allocate_pinned(const Device& device, std::int64_t count, std::size_t value_bytes);
void upload_bytes(void* to, const void* from, std::size_t to_bytes, std::size_t from_bytes, const Stream& stream);
}  // namespace detail

/// Owns `num_elements` values of T in page-locked host memory, which copies to and from a GPU need no second copy of.
/// The values are uninitialised. Page-locked memory is taken from all programs of a machine: for what is copied in
/// every step.
template <class T>
class PinnedBuffer {
  static_assert(std::is_trivially_copyable_v<T>, "memory holds plain values only");

 public:
  PinnedBuffer() = default;
  /// @param device  a GPU. @throws InvalidArgument for the CPU, std::bad_alloc for a negative count, DeviceError where
  /// the machine has no such memory left
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

/// to[i] = from[i], in the stream's order, without waiting for it: `from` is page-locked memory, which must stay as it
/// is until the stream has come so far (StreamEvent). On the CPU any memory is, and is copied at once.
/// @throws InvalidArgument if lengths differ, DeviceError
template <class T>
void upload(std::type_identity_t<std::span<const T>> from, std::span<T> to, const Stream& stream) {
  static_assert(std::is_trivially_copyable_v<T>, "only plain values can be copied between devices");
  detail::upload_bytes(to.data(), from.data(), to.size_bytes(), from.size_bytes(), stream);
}

}  // namespace terngrad
