// HostCopies: host buffers for a coder that works on the CPU with gradients in GPU memory.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <vector>

#include "compress/codec/coder.h"
#include "kernels/runtime/pinned_buffer.h"

namespace terngrad {

/// Page-locked host memory for the gradients of some tensors, and for scalers, payloads and means. Buffers grow to the
/// requested size and are reused from step to step. Every copy to the host waits for the GPU's stream.
class HostCopies {
 public:
  /// @param setup  for a GPU. @param segments  tensors whose gradients are copied
  HostCopies(const CoderSetup& setup, std::vector<int> segments);

  /// Stream for work on the CPU.
  Stream& cpu() { return cpu_; }
  /// Copies the segments' gradients to the host, with their element type. @returns gradients()
  std::span<const TensorTable> copy_gradients(std::span<const TensorTable> on_device, Stream& stream);
  /// Gradients copied last; tensors of other segments are null.
  std::span<const TensorTable> gradients() const { return tables_; }
  /// The step's number, read from host or device memory.
  static std::uint64_t number_of(const DeviceStep& step, Stream& stream);

  /// Separate buffers, with unspecified contents; valid until the next call.
  std::span<float> rows(std::size_t count) { return room(rows_, count); }
  std::span<float> mean(std::size_t count) { return room(mean_, count); }
  /// Aligned to 8 bytes.
  std::span<std::uint8_t> payload(std::size_t bytes) { return room(payload_, bytes); }

 private:
  template <class T>
  std::span<T> room(PinnedBuffer<T>& buffer, std::size_t count) {
    if (static_cast<std::size_t>(buffer.num_elements()) < count) {
      buffer = PinnedBuffer<T>(static_cast<std::int64_t>(count), device_);
    }
    return buffer.span().first(count);
  }

  Layout layout_;
  Device device_;
  std::vector<int> segments_;
  Stream cpu_;
  PinnedBuffer<std::uint8_t> elements_;
  PinnedBuffer<float> rows_, mean_;
  PinnedBuffer<std::uint8_t> payload_;
  std::vector<TensorTable> tables_;
};

}  // namespace terngrad
