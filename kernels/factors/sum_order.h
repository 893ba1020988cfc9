// Constants of the order of summation in kernels/factors/low_rank.h, the same on every backend.
#pragma once

#include <cstdint>

namespace terngrad {

inline constexpr std::int64_t kFactorLanes = 16;       // lanes of sums along a row
inline constexpr std::int64_t kFactorBlockRows = 64;   // rows per block of sums along a column
inline constexpr std::int64_t kFactorSlots = 256;      // slots that the blocks of a column are assigned to in turn
inline constexpr double kSmallestNormRatio = 0x1p-20;  // columns whose norm shrinks to this ratio become zeros

}  // namespace terngrad
