// Inputs and outputs of subjects in the memory of a stream's device.
#pragma once

#include <cstdint>
#include <span>
#include <type_traits>
#include <vector>

#include "kernels/runtime/buffer.h"
#include "kernels/runtime/copy.h"
#include "kernels/runtime/device.h"

namespace terngrad::bench {

/// Copies values from the stream's device, and waits for them.
template <class T>
std::vector<std::remove_const_t<T>> on_host(std::span<T> values, Stream& stream) {
  std::vector<std::remove_const_t<T>> result(values.size());
  copy<std::remove_const_t<T>>(values, std::span(result), stream);
  stream.synchronize();
  return result;
}

/// A copy of host memory on the stream's device.
template <class T>
Buffer<std::remove_const_t<T>> on_device(std::span<T> host, Stream& stream) {
  Buffer<std::remove_const_t<T>> result(static_cast<std::int64_t>(host.size()), stream.device());
  copy<std::remove_const_t<T>>(host, result.span(), stream);
  return result;
}

template <class T>
Buffer<T> zeros_on(std::int64_t count, Stream& stream) {
  Buffer<T> result(count, stream.device());
  fill_zero(result.span(), stream);
  return result;
}

/// Values that work only reads: on the CPU the host's memory itself, so that the read kernel leaves it in the caches;
/// on a GPU a copy.
template <class T>
class Input {
 public:
  Input(std::span<const T> host, Stream& stream) : values_(host) {
    if (stream.device().is_cpu()) return;
    copy_ = on_device(host, stream);
    values_ = copy_.span();
  }

  const T* data() const { return values_.data(); }
  std::span<const T> span() const { return values_; }

 private:
  Buffer<T> copy_;
  std::span<const T> values_;
};

template <class T>
std::span<const std::uint8_t> bytes_of(std::span<T> values) {
  return {reinterpret_cast<const std::uint8_t*>(values.data()), values.size_bytes()};
}

}  // namespace terngrad::bench
