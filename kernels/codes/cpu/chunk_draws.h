// The 16-bit draws of one chunk, kept for the workers who share them.
#pragma once

#include <cstdint>

#include "kernels/tensor/slice.h"

namespace terngrad::cpu {

/// Draws of one chunk, in the order of the kernel that fills them.
struct ChunkDraws {
  /// Draws that one vectorized step may generate behind the chunk's end.
  static constexpr std::int64_t kSpare = 256;

  alignas(64) std::uint16_t values[kChunkElements + kSpare];
  bool are_filled = false;
};

}  // namespace terngrad::cpu
