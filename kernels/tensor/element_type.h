// Element types of gradients that a framework passes in.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>

#include "kernels/runtime/device.h"

namespace terngrad {

/// IEEE 754 binary32; its upper half (kernels/tensor/bfloat16.h); IEEE 754 binary16 (kernels/tensor/float16.h).
enum class ElementType : std::uint8_t { kFloat32, kBfloat16, kFloat16 };

/// Mutable array of elements of a type.
struct FloatSpan {
  void* values = nullptr;  // [count], aligned to their size
  std::int64_t count = 0;
  ElementType type = ElementType::kFloat32;
};

/// Size of an element in bytes: 4 or 2.
std::size_t element_bytes(ElementType type);
/// "fp32", "bf16" or "fp16".
const char* element_type_name(ElementType type);

/// Address of element `index` of an array of `type`.
inline const void* element_at(const void* values, ElementType type, std::int64_t index) {
  return static_cast<const std::byte*>(values) + index * static_cast<std::int64_t>(element_bytes(type));
}
inline void* element_at(void* values, ElementType type, std::int64_t index) {
  return static_cast<std::byte*>(values) + index * static_cast<std::int64_t>(element_bytes(type));
}

/// Element `index` of an array of `type` in host memory, widened exactly.
float element_as_float(const void* values, ElementType type, std::int64_t index);

/// @param who  name of the caller, for the error message
/// @throws InvalidArgument if the address is not a multiple of element_bytes(type)
void require_aligned_elements(const void* values, ElementType type, const char* who);

/// out[i] = values[i] as float32, exactly. Bit-equal on every backend, NaN included. Asynchronous on a GPU's stream,
/// where both arrays are device memory.
/// @param values  [out.size()] elements of `type`, aligned to their size; must not overlap `out`
/// @throws InvalidArgument for a misaligned address
void widen(const void* values, ElementType type, std::span<float> out, Stream& stream);

}  // namespace terngrad
