// Elements of any type for kernels that work on float32: widened a chunk at a time, while it is in the cache.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>

#include "kernels/tensor/cpu/bfloat16.h"
#include "kernels/tensor/cpu/float16.h"
#include "kernels/tensor/element_type.h"
#include "kernels/tensor/slice.h"

namespace terngrad::cpu {

/// Memory for the elements of one chunk at a time, on the stack of the thread that works on it.
class WidenedChunk {
 public:
  /// Elements first .. first + count - 1 of `values` as float32: where they are if they are that, else a copy that
  /// holds until the next call. @param count  at most kChunkElements
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

/// The memory of elements first .. first + count - 1.
inline std::span<const std::byte> memory_of(const void* values, ElementType type, std::int64_t first,
                                            std::int64_t count) {
  return {static_cast<const std::byte*>(element_at(values, type, first)),
          static_cast<std::size_t>(count) * element_bytes(type)};
}

}  // namespace terngrad::cpu
