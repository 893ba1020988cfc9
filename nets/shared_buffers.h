// SharedBuffers: memory for values that live one after another, worked out before any of them exists.
#pragma once

#include <cstddef>
#include <cstdint>
#include <vector>

#include "kernels/runtime/buffer.h"

namespace terngrad {

/// Which values lie in which buffer. Walk through the program once: `acquire` where a value is first written, `release`
/// after its last use; then `allocate`, and `data` is where each value goes. A chain of values of which two live at a
/// time takes two buffers, each as large as the largest it holds.
class SharedBuffers {
 public:
  /// A buffer for a value of `num_elements`: the smallest free one that holds it, else the largest free one, which
  /// grows, else a new one.
  std::size_t acquire(std::int64_t num_elements);
  /// Frees the buffer for the values that follow.
  void release(std::size_t buffer);

  /// Allocates all buffers; on the CPU they are filled with zeros.
  void allocate(const Device& device);
  float* data(std::size_t buffer) { return buffers_[buffer].data(); }

  std::int64_t size(std::size_t buffer) const { return sizes_[buffer]; }
  /// Of all buffers together.
  std::int64_t num_elements() const;

 private:
  std::vector<std::int64_t> sizes_;
  std::vector<std::size_t> free_;
  std::vector<Buffer<float>> buffers_;
};

}  // namespace terngrad
