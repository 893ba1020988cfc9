// Widens elements of any type to float32, one chunk at a time while it is in the cache.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>

#include "kernels/tensor/cpu/bfloat16.h"
#include "kernels/tensor/cpu/float16.h"
#include "kernels/tensor/element_type.h"
#include "kernels/tensor/slice.h"

namespace terngrad::cpu {

/// Stack buffer of one thread for one widened chunk.
class WidenedChunk {
 public:
  /// Elements [first, first + count) of `values` as float32: a pointer into `values` if they are float32, else to a
  /// copy that is valid until the next call.
  /// @param count  at most kChunkElements
  const float* of(const void* values, ElementType type, std::int64_t first, std::int64_t count) {
    const void* chunk = element_at(values, type, first);
    switch (type) {
      case ElementType::kFloat32:
        return static_cast<const float*>(chunk);
      case ElementType::kBfloat16:
        decode_bfloat16(static_cast<const std::uint16_t*>(chunk), widened_, count);
        break;
      case ElementType::kFloat16:
        decode_float16(static_cast<const std::uint16_t*>(chunk), widened_, count);
        break;
    }
    return widened_;
  }

 private:
  alignas(64) float widened_[kChunkElements];
};

/// Bytes of elements [first, first + count).
inline std::span<const std::byte> memory_of(const void* values, ElementType type, std::int64_t first,
                                            std::int64_t count) {
  return {static_cast<const std::byte*>(element_at(values, type, first)),
          static_cast<std::size_t>(count) * element_bytes(type)};
}

}  // namespace terngrad::cpu
