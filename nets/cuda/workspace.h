// Workspace: scratch memory shared by the layers of a net.
#pragma once

#include <algorithm>
#include <cstddef>
#include <cstdint>

#include "kernels/runtime/buffer.h"

namespace terngrad::cuda {

/// Layers of one net run sequentially in a stream, so they share one block with the size of the largest request:
/// `reserve` while layers are made, `allocate` once, then `data`.
class Workspace {
 public:
  /// Alignment of the parts of a block, as the libraries require.
  static constexpr std::int64_t kAlignment = 256;
  static constexpr std::int64_t aligned(std::int64_t bytes) {
    return (bytes + kAlignment - 1) / kAlignment * kAlignment;
  }

  void reserve(std::int64_t bytes) { bytes_ = std::max(bytes_, bytes); }
  void allocate(const Device& device) { memory_ = Buffer<std::byte>(bytes_, device); }
  std::byte* data() { return memory_.data(); }

 private:
  std::int64_t bytes_ = 0;
  Buffer<std::byte> memory_;
};

}  // namespace terngrad::cuda
