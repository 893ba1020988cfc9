// Arithmetic and bit intrinsics.
#pragma once

#include <cmath>
#include <concepts>
#include <cstdint>
#include <limits>

#include "simt/bits.h"

// Correctly rounded by both compilers; nvcc never contracts these to fused multiply-adds.
inline float __fadd_rn(float a, float b) { return a + b; }
inline float __fsub_rn(float a, float b) { return a - b; }
inline float __fmul_rn(float a, float b) { return a * b; }
inline float __fdiv_rn(float a, float b) { return a / b; }
inline float __fsqrt_rn(float a) { return std::sqrt(a); }
inline float __fmaf_rn(float a, float b, float c) { return std::fma(a, b, c); }
inline int __float2int_rn(float a) { return static_cast<int>(std::nearbyint(a)); }
inline double __dadd_rn(double a, double b) { return a + b; }
inline double __dmul_rn(double a, double b) { return a * b; }
inline double __dsqrt_rn(double a) { return std::sqrt(a); }
inline double __ddiv_rn(double a, double b) { return a / b; }
inline double __fma_rn(double a, double b, double c) { return std::fma(a, b, c); }

/// Sum rounded towards zero: the nearest sum, one step smaller if it exceeds the exact sum.
inline float __fadd_rz(float a, float b) {
  const float sum = a + b;
  if (std::isinf(sum) && std::isfinite(a) && std::isfinite(b)) {
    return std::copysign(std::numeric_limits<float>::max(), sum);
  }
  // Knuth, The Art of Computer Programming, volume 2, theorem 4.2.2 B: a + b = sum + rest, exactly.
  const float taken = sum - a;
  const float rest = (a - (sum - taken)) + (b - taken);
  return (sum > 0 && rest < 0) || (sum < 0 && rest > 0) ? std::nextafter(sum, 0.0f) : sum;
}

inline unsigned __umulhi(unsigned a, unsigned b) { return static_cast<unsigned>(std::uint64_t{a} * b >> 32); }
inline int __popc(unsigned value) { return __builtin_popcount(value); }
inline int __clz(int value) { return value != 0 ? __builtin_clz(static_cast<unsigned>(value)) : 32; }
inline int __ffs(int value) { return __builtin_ffs(value); }
inline unsigned __brev(unsigned value) {
  unsigned reversed = 0;
  for (unsigned bit = 0; bit < 32; ++bit) reversed |= (value >> bit & 1) << (31 - bit);
  return reversed;
}
inline unsigned __funnelshift_l(unsigned low, unsigned high, unsigned shift) {
  return static_cast<unsigned>(((std::uint64_t{high} << 32 | low) << (shift & 31)) >> 32);
}

inline unsigned __funnelshift_r(unsigned low, unsigned high, unsigned shift) {
  return static_cast<unsigned>((std::uint64_t{high} << 32 | low) >> (shift & 31));
}
/// Byte i of the result is the byte of b:a that nibble i of the selector names.
inline unsigned __byte_perm(unsigned a, unsigned b, unsigned selector) {
  const std::uint64_t bytes = std::uint64_t{b} << 32 | a;
  unsigned result = 0;
  for (unsigned i = 0; i < 4; ++i) {
    result |= static_cast<unsigned>(bytes >> (8 * (selector >> (4 * i) & 7)) & 0xff) << (8 * i);
  }
  return result;
}

inline unsigned __float_as_uint(float value) { return simt::from_bits<unsigned>(simt::to_bits(value)); }
inline float __uint_as_float(unsigned value) { return simt::from_bits<float>(simt::to_bits(value)); }

template <std::integral T>
constexpr T min(T a, T b) {
  return b < a ? b : a;
}
template <std::integral T>
constexpr T max(T a, T b) {
  return a < b ? b : a;
}
// As on a GPU: the other operand if one is NaN, and -0 < +0; the C library does not define the latter.
template <std::floating_point T>
T min(T a, T b) {
  if (a == b) return std::signbit(a) ? a : b;
  return std::fmin(a, b);
}
template <std::floating_point T>
T max(T a, T b) {
  if (a == b) return std::signbit(a) ? b : a;
  return std::fmax(a, b);
}
