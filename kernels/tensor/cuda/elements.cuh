// Gradient elements in kernels: float32, and 16-bit types that are widened on load.
#pragma once

#include <cuda_fp16.h>
#include <cuda_runtime.h>

#include <cstdint>

#include "kernels/tensor/bfloat16.h"
#include "kernels/tensor/element_type.h"
#include "kernels/tensor/float16.h"

namespace terngrad::cuda {

/// Element types that kernels are instantiated with, one per ElementType; kFloat32 is float.
struct Bfloat16 {
  std::uint16_t bits;
};
struct Float16 {
  std::uint16_t bits;
};

__device__ inline float widened(float value) { return value; }
__device__ inline float widened(Bfloat16 value) { return from_bfloat16(value.bits); }
/// Uses the GPU's conversion instruction, which is exact but maps every NaN to the same one (PTX ISA, "cvt"), so NaNs
/// get from_float16's bits here. Branch-free: a branch would cost more registers than it saves instructions.
__device__ inline float widened(Float16 value) {
  const std::uint32_t bits = value.bits;
  const float converted = __half2float(__ushort_as_half(value.bits));
  const float nan = __uint_as_float((bits & 0x8000u) << 16 | (bits & 0x7fffu) << 13 | 0x7fc00000u);
  return converted == converted ? converted : nan;
}

/// Widens the two 16-bit elements of a word, in memory order.
template <class Element>
__device__ float2 widened_pair(std::uint32_t word) {
  return {widened(Element{static_cast<std::uint16_t>(word)}), widened(Element{static_cast<std::uint16_t>(word >> 16)})};
}

/// Size of one vector access in bytes; is_vector_aligned: true if such an access can begin at `values`.
inline constexpr std::uintptr_t kVectorBytes = 16;
__device__ inline bool is_vector_aligned(const void* values) {
  return reinterpret_cast<std::uintptr_t>(values) % kVectorBytes == 0;
}

/// Calls visit(element) with a value of the element type for `type`.
template <class Visit>
void with_element(ElementType type, const Visit& visit) {
  switch (type) {
    case ElementType::kFloat32:
      return visit(float{});
    case ElementType::kBfloat16:
      return visit(Bfloat16{});
    case ElementType::kFloat16:
      return visit(Float16{});
  }
}

}  // namespace terngrad::cuda
