// SharedBuffers: static memory planning for values with disjoint lifetimes.
#pragma once

#include <cstddef>
#include <cstdint>
#include <vector>

#include "kernels/runtime/buffer.h"

namespace terngrad {

/// Assigns values to buffers. Dry-run the program once: `acquire` when a value is first written, `release` after its
/// last use; then call `allocate`, and `data` gives each buffer's address. A chain of values of which two are live at
/// a time takes two buffers, each as large as its largest value.
class SharedBuffers {
 public:
  /// Returns a buffer for a value of `num_elements`: the smallest free one that is large enough, else the largest free
  /// one, which grows, else a new one.
  std::size_t acquire(std::int64_t num_elements);
  /// Frees the buffer for later values.
  void release(std::size_t buffer);

  /// Allocates all buffers; on the CPU they are filled with zeros.
  void allocate(const Device& device);
  float* data(std::size_t buffer) { return buffers_[buffer].data(); }

  std::int64_t size(std::size_t buffer) const { return sizes_[buffer]; }
  /// Total size of all buffers.
  std::int64_t num_elements() const;

 private:
  std::vector<std::int64_t> sizes_;
  std::vector<std::size_t> free_;
  std::vector<Buffer<float>> buffers_;
};

}  // namespace terngrad
