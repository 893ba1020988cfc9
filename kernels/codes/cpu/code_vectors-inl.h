// Byte codes in groups of 64 elements, for kernels that are compiled once per SIMD target: include it after
// <hwy/foreach_target.h> and before HWY_BEFORE_NAMESPACE in a file that foreach_target.h re-includes.
#if defined(TERNGRAD_KERNELS_CODES_CPU_CODE_VECTORS_INL_H) == defined(HWY_TARGET_TOGGLE)
#ifdef TERNGRAD_KERNELS_CODES_CPU_CODE_VECTORS_INL_H
#undef TERNGRAD_KERNELS_CODES_CPU_CODE_VECTORS_INL_H
#else
#define TERNGRAD_KERNELS_CODES_CPU_CODE_VECTORS_INL_H
#endif

#include <hwy/highway.h>

#include <cstddef>
#include <cstdint>
#include <cstring>

#include "kernels/codes/cpu/draws-inl.h"

HWY_BEFORE_NAMESPACE();
namespace terngrad::cpu::HWY_NAMESPACE {
namespace hn = hwy::HWY_NAMESPACE;

using DInt = hn::RebindToSigned<DFloat>;
using VFloat = hn::Vec<DFloat>;
using VInt = hn::Vec<DInt>;

/// Converts values from 0 to 2^30 to integers, rounding toward zero.
HWY_INLINE VInt Truncated(VFloat value) {
#if HWY_TARGET == HWY_AVX3
  return VInt{_mm512_cvttps_epi32(value.raw)};  // skips ConvertTo's handling of out-of-range values
#else
  return hn::ConvertTo(DInt(), value);
#endif
}

/// Stores the codes of 64 elements, given as consecutive vectors, as bytes in natural order.
HWY_INLINE void StoreBytes(const VInt (&codes)[64 / kFloatLanes], std::uint8_t* HWY_RESTRICT out) {
#if HWY_TARGET == HWY_AVX3
  // Packing interleaves groups of four: dword 4j + k has elements 16k + 4j and up.
  const __m512i low = _mm512_packus_epi32(codes[0].raw, codes[1].raw);
  const __m512i high = _mm512_packus_epi32(codes[2].raw, codes[3].raw);
  const __m512i order = _mm512_setr_epi32(0, 4, 8, 12, 1, 5, 9, 13, 2, 6, 10, 14, 3, 7, 11, 15);
  _mm512_storeu_si512(out, _mm512_permutexvar_epi32(order, _mm512_packus_epi16(low, high)));
#else
  const hn::Rebind<std::uint8_t, DFloat> d8;
  HWY_UNROLL(4)
  for (std::size_t i = 0; i < 64 / kFloatLanes; ++i) {
    hn::StoreU(hn::DemoteTo(d8, codes[i]), d8, out + i * kFloatLanes);
  }
#endif
}

/// Quantizes a run of elements, 64 at a time. @param quantize_64  called as quantize_64(begin, elements, codes)
template <class Quantize64>
HWY_INLINE void QuantizeRun(const float* gradient, std::size_t count, std::uint8_t* HWY_RESTRICT codes,
                            const Quantize64& quantize_64) {
  std::size_t begin = 0;
  for (; begin + 64 <= count; begin += 64) quantize_64(begin, gradient + begin, codes + begin);
  if (begin < count) {
    // The partial tail, zero-padded.
    alignas(64) float padded[64] = {};
    std::memcpy(padded, gradient + begin, (count - begin) * sizeof(float));
    quantize_64(begin, padded, codes + begin);
  }
}

}  // namespace terngrad::cpu::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();

#endif
