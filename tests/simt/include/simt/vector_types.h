// CUDA's vector types, aligned for single vector loads and stores on a GPU.
#pragma once

#include <cstddef>

struct uint3 {
  unsigned x, y, z;
};

struct dim3 {
  unsigned x, y, z;
  constexpr dim3(unsigned x_ = 1, unsigned y_ = 1, unsigned z_ = 1) : x(x_), y(y_), z(z_) {}
};

namespace simt {
/// The widest access has 16 bytes.
constexpr std::size_t vector_alignment(std::size_t bytes) { return bytes < 16 ? bytes : 16; }
}  // namespace simt

#define SIMT_VECTORS(T, name)                                     \
  struct alignas(simt::vector_alignment(2 * sizeof(T))) name##2 { \
    T x, y;                                                       \
  };                                                              \
  struct alignas(simt::vector_alignment(4 * sizeof(T))) name##4 { \
    T x, y, z, w;                                                 \
  };                                                              \
  constexpr name##2 make_##name##2(T x, T y) { return {x, y}; }   \
  constexpr name##4 make_##name##4(T x, T y, T z, T w) { return {x, y, z, w}; }

SIMT_VECTORS(signed char, char)
SIMT_VECTORS(unsigned char, uchar)
SIMT_VECTORS(short, short)
SIMT_VECTORS(unsigned short, ushort)
SIMT_VECTORS(int, int)
SIMT_VECTORS(unsigned, uint)
SIMT_VECTORS(float, float)
SIMT_VECTORS(double, double)

#undef SIMT_VECTORS
