// float16 conversions of the GPU.
#pragma once

#include "kernels/tensor/float16.h"
#include "simt/bits.h"

struct __half {
  unsigned short bits;
};

inline __half __ushort_as_half(unsigned short bits) { return {bits}; }
/// Exact; every NaN becomes the canonical one.
inline float __half2float(__half value) {
  const float converted = terngrad::from_float16(value.bits);
  return converted == converted ? converted : simt::from_bits<float>(simt::to_bits(0x7fffffffu));
}
