// Bit scattering (pdep), for kernels that are compiled once per SIMD target: include it after <hwy/foreach_target.h>
// and before HWY_BEFORE_NAMESPACE in a file that foreach_target.h re-includes.
#if defined(TERNGRAD_KERNELS_CODES_CPU_SCATTER_BITS_INL_H) == defined(HWY_TARGET_TOGGLE)
#ifdef TERNGRAD_KERNELS_CODES_CPU_SCATTER_BITS_INL_H
#undef TERNGRAD_KERNELS_CODES_CPU_SCATTER_BITS_INL_H
#else
#define TERNGRAD_KERNELS_CODES_CPU_SCATTER_BITS_INL_H
#endif

#include <hwy/highway.h>

#include <bit>
#include <cstdint>

#if HWY_ARCH_X86
#include <immintrin.h>
#endif

HWY_BEFORE_NAMESPACE();
namespace terngrad::cpu::HWY_NAMESPACE {

/// Deposits the lowest bits of `bits` at the set bits of `mask`, in order.
HWY_INLINE std::uint64_t ScatterBits(std::uint64_t bits, std::uint64_t mask) {
#if HWY_ARCH_X86 && HWY_TARGET <= HWY_AVX2
  return _pdep_u64(bits, mask);
#else
  std::uint64_t result = 0;
  for (; mask != 0; mask &= mask - 1, bits >>= 1) result |= (bits & 1) << std::countr_zero(mask);
  return result;
#endif
}

}  // namespace terngrad::cpu::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();

#endif
