// The order of sums of products with thin factors (kernels/factors/low_rank.h), which is the same on every backend.
#pragma once

#include <cstdint>

namespace terngrad {

inline constexpr std::int64_t kFactorLanes = 16;       // of sums along a row
inline constexpr std::int64_t kFactorBlockRows = 64;   // of sums along a column
inline constexpr std::int64_t kFactorSlots = 256;      // that take the blocks of a column in turn
inline constexpr double kSmallestNormRatio = 0x1p-20;  // of a column's norm to what it was, or the column is zeros

}  // namespace terngrad
