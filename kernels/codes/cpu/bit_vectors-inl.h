// Vectors of elements selected by bits, for kernels that are compiled once per SIMD target: include it after
// <hwy/foreach_target.h> and before HWY_BEFORE_NAMESPACE in a file that foreach_target.h re-includes.
#if defined(TERNGRAD_KERNELS_CODES_CPU_BIT_VECTORS_INL_H) == defined(HWY_TARGET_TOGGLE)
#ifdef TERNGRAD_KERNELS_CODES_CPU_BIT_VECTORS_INL_H
#undef TERNGRAD_KERNELS_CODES_CPU_BIT_VECTORS_INL_H
#else
#define TERNGRAD_KERNELS_CODES_CPU_BIT_VECTORS_INL_H
#endif

#include <hwy/highway.h>

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <cstring>

#include "kernels/codes/cpu/draws-inl.h"

HWY_BEFORE_NAMESPACE();
namespace terngrad::cpu::HWY_NAMESPACE {
namespace hn = hwy::HWY_NAMESPACE;

/// -value, with the bits of a NaN unchanged, as in a product.
HWY_INLINE float Negated(float value) { return value != value ? value : -value; }

/// Bits [first, first + 64) of a payload, zeros behind its end.
HWY_INLINE std::uint64_t BitsFrom(const std::uint8_t* bits, std::int64_t num_bytes, std::int64_t first) {
  const std::int64_t byte = first / 8;
  const auto shift = static_cast<unsigned>(first % 8);
  std::uint64_t word = 0;
  if (byte + 8 <= num_bytes) {
    std::memcpy(&word, bits + byte, sizeof(word));
  } else {
    std::memcpy(&word, bits + byte, static_cast<std::size_t>(num_bytes - byte));
  }
  const std::uint64_t next = byte + 8 < num_bytes ? bits[byte + 8] : 0;
  return word >> shift | next << 1 << (63 - shift);  // two shifts, since one by 64 is undefined
}

/// Mask of a vector's lanes: lane i is set if bit i is.
HWY_INLINE auto MaskOfBits(std::uint64_t bits) {
  const hn::RebindToUnsigned<DFloat> d;
  alignas(64) static constexpr std::uint32_t kPlaces[16] = {1,        1u << 1,  1u << 2,  1u << 3, 1u << 4,  1u << 5,
                                                            1u << 6,  1u << 7,  1u << 8,  1u << 9, 1u << 10, 1u << 11,
                                                            1u << 12, 1u << 13, 1u << 14, 1u << 15};
  const auto places = hn::Load(d, kPlaces);
  return hn::RebindMask(DFloat(), hn::TestBit(hn::Set(d, static_cast<std::uint32_t>(bits)), places));
}

/// Stores `count` of 64 elements. @param vector_at  returns the vector of elements from `at` on
template <bool kStream = false, class VectorAt>
HWY_INLINE void StoreOfBits(std::size_t count, float* HWY_RESTRICT out, const VectorAt& vector_at) {
  const DFloat d;
  if (count == 64) {
    HWY_UNROLL(4)
    for (std::size_t at = 0; at < 64; at += kFloatLanes) {
      if constexpr (kStream) {
        hn::Stream(vector_at(at), d, out + at);
      } else {
        hn::StoreU(vector_at(at), d, out + at);
      }
    }
    return;
  }
  alignas(64) float all[64];
  for (std::size_t at = 0; at < 64; at += kFloatLanes) hn::Store(vector_at(at), d, all + at);
  std::memcpy(out, all, count * sizeof(float));
}

}  // namespace terngrad::cpu::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();

#endif
