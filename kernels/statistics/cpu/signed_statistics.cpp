#include "kernels/statistics/signed_statistics.h"
#include "kernels/statistics/statistics.h"

#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "kernels/statistics/cpu/signed_statistics.cpp"
#include <hwy/foreach_target.h>
// Highway requires that foreach_target.h comes first.
#include <hwy/highway.h>

#include <algorithm>
#include <cstring>

HWY_BEFORE_NAMESPACE();
namespace terngrad::cpu::HWY_NAMESPACE {
namespace hn = hwy::HWY_NAMESPACE;

using D64 = hn::CappedTag<double, 8>;
using V64 = hn::Vec<D64>;
using DHalf = hn::Rebind<float, D64>;
using DBits = hn::Rebind<std::int32_t, D64>;
using VBits = hn::Vec<DBits>;

inline constexpr std::size_t kLanes = hn::MaxLanes(D64());
inline constexpr std::size_t kVectors = kStatisticsLanes / kLanes;  // vectors for the 16 lanes of a row

/// Accumulators for one float64 vector of elements.
struct Sides {
  V64 positive;
  V64 negative;
  VBits num_negative;
  VBits max_positive;
  VBits max_negative;
};

HWY_INLINE Sides NoSides() {
  const V64 no_sum = hn::Zero(D64());
  const VBits none = hn::Zero(DBits());
  return {no_sum, no_sum, none, none, none};
}

/// Accumulates one vector of elements.
HWY_INLINE void Take(const float* HWY_RESTRICT values, Sides& sides) {
  const D64 d64;
  const DBits d_bits;
  const auto g = hn::LoadU(DHalf(), values);
  const auto bits = hn::BitCast(d_bits, g);
  const auto magnitude_bits = hn::And(bits, hn::Set(d_bits, 0x7fffffff));
  const auto is_negative = hn::Lt(bits, hn::Zero(d_bits));
  const auto zero = hn::Zero(DHalf());
  const auto magnitude = hn::Abs(g);
  const auto is_negative_float = hn::RebindMask(DHalf(), is_negative);
  sides.positive = hn::Add(sides.positive, hn::PromoteTo(d64, hn::IfThenElse(is_negative_float, zero, magnitude)));
  sides.negative = hn::Add(sides.negative, hn::PromoteTo(d64, hn::IfThenElse(is_negative_float, magnitude, zero)));
  sides.num_negative = hn::Sub(sides.num_negative, hn::VecFromMask(d_bits, is_negative));
  sides.max_positive = hn::Max(sides.max_positive, hn::IfThenZeroElse(is_negative, magnitude_bits));
  sides.max_negative = hn::Max(sides.max_negative, hn::IfThenElseZero(is_negative, magnitude_bits));
}

/// Accumulators of some lanes, stored in memory.
template <std::size_t kCount>
struct StoredSides {
  alignas(64) double positive[kCount] = {};
  alignas(64) double negative[kCount] = {};
  alignas(64) std::int32_t num_negative[kCount] = {};
  alignas(64) std::int32_t max_positive[kCount] = {};
  alignas(64) std::int32_t max_negative[kCount] = {};

  HWY_INLINE void Store(const Sides& sides, std::size_t at) {
    hn::Store(sides.positive, D64(), positive + at);
    hn::Store(sides.negative, D64(), negative + at);
    hn::Store(sides.num_negative, DBits(), num_negative + at);
    hn::Store(sides.max_positive, DBits(), max_positive + at);
    hn::Store(sides.max_negative, DBits(), max_negative + at);
  }

  /// Accumulates one element in a lane.
  void TakeOne(float g, std::size_t lane) {
    std::int32_t bits;
    std::memcpy(&bits, &g, sizeof(bits));
    const std::int32_t magnitude_bits = bits & 0x7fffffff;
    float magnitude;
    std::memcpy(&magnitude, &magnitude_bits, sizeof(magnitude));
    (bits < 0 ? negative : positive)[lane] += static_cast<double>(magnitude);
    num_negative[lane] += bits < 0 ? 1 : 0;
    std::int32_t& max = (bits < 0 ? max_negative : max_positive)[lane];
    max = std::max(max, magnitude_bits);
  }

  SignedStatistics Of(std::size_t lane) const {
    return {positive[lane], negative[lane], static_cast<std::uint64_t>(num_negative[lane]),
            static_cast<std::uint32_t>(max_positive[lane]), static_cast<std::uint32_t>(max_negative[lane])};
  }
};

/// Steps 2 and 3 of the tree, for one of the two sums.
double CombineRows(const double (&rows)[kStatisticsRows * kStatisticsLanes]) {
  double lanes[kStatisticsLanes];
  for (std::size_t lane = 0; lane < kStatisticsLanes; ++lane) {
    const auto pair = [&](std::size_t row) {
      return rows[row * kStatisticsLanes + lane] + rows[(row + 1) * kStatisticsLanes + lane];
    };
    lanes[lane] = (pair(0) + pair(2)) + (pair(4) + pair(6));
  }
  for (std::size_t distance = kStatisticsLanes / 2; distance > 0; distance /= 2) {
    for (std::size_t lane = 0; lane < distance; ++lane) lanes[lane] += lanes[lane + distance];
  }
  return lanes[0];
}

SignedStatistics SignedChunkStatistics(const float* HWY_RESTRICT values, std::int64_t num_values) {
  const auto count = static_cast<std::size_t>(num_values);
  StoredSides<kStatisticsRows * kStatisticsLanes> stored;
  std::size_t done = 0;
  for (std::size_t row = 0; row < kStatisticsRows; ++row) {
    // Whole groups, then the elements of a partial one; absent elements leave their accumulators at +0.
    const std::size_t left = std::min(count - done, kStatisticsRowElements);
    const std::size_t whole = left / kStatisticsLanes;
    Sides sides[kVectors];
    for (Sides& s : sides) s = NoSides();
    for (std::size_t group = 0; group < whole; ++group) {
      const float* HWY_RESTRICT p = values + done + group * kStatisticsLanes;
      HWY_UNROLL(16)
      for (std::size_t v = 0; v < kVectors; ++v) Take(p + v * kLanes, sides[v]);
    }
    for (std::size_t v = 0; v < kVectors; ++v) stored.Store(sides[v], row * kStatisticsLanes + v * kLanes);
    for (std::size_t lane = 0; lane < left % kStatisticsLanes; ++lane) {
      stored.TakeOne(values[done + whole * kStatisticsLanes + lane], row * kStatisticsLanes + lane);
    }
    done += left;
  }
  SignedStatistics result{CombineRows(stored.positive), CombineRows(stored.negative), 0, 0, 0};
  for (std::size_t i = 0; i < kStatisticsRows * kStatisticsLanes; ++i) {
    const SignedStatistics lane = stored.Of(i);
    result.num_negative += lane.num_negative;
    result.max_positive = std::max(result.max_positive, lane.max_positive);
    result.max_negative = std::max(result.max_negative, lane.max_negative);
  }
  return result;
}

void ColumnStatistics(const float* HWY_RESTRICT values, std::int64_t num_rows, std::int64_t num_columns,
                      SignedStatistics* HWY_RESTRICT out) {
  const auto rows = static_cast<std::size_t>(num_rows);
  const auto columns = static_cast<std::size_t>(num_columns);
  std::size_t column = 0;
  for (; column + kLanes <= columns; column += kLanes) {
    Sides sides = NoSides();
    for (std::size_t row = 0; row < rows; ++row) Take(values + row * columns + column, sides);
    StoredSides<kLanes> stored;
    stored.Store(sides, 0);
    for (std::size_t lane = 0; lane < kLanes; ++lane) out[column + lane] = stored.Of(lane);
  }
  for (; column < columns; ++column) {
    StoredSides<1> stored;
    for (std::size_t row = 0; row < rows; ++row) stored.TakeOne(values[row * columns + column], 0);
    out[column] = stored.Of(0);
  }
}

}  // namespace terngrad::cpu::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
namespace terngrad::cpu {
HWY_EXPORT(SignedChunkStatistics);
HWY_EXPORT(ColumnStatistics);
SignedStatistics signed_chunk_statistics(const float* values, std::int64_t count) {
  return HWY_DYNAMIC_DISPATCH(SignedChunkStatistics)(values, count);
}
void column_statistics(const float* values, std::int64_t rows, std::int64_t columns, SignedStatistics* out) {
  HWY_DYNAMIC_DISPATCH(ColumnStatistics)(values, rows, columns, out);
}
}  // namespace terngrad::cpu
#endif
