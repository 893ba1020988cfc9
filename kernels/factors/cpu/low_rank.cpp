#include "kernels/factors/cpu/low_rank.h"

#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "kernels/factors/cpu/low_rank.cpp"
#include <hwy/foreach_target.h>
// Highway requires that foreach_target.h comes first.
#include <hwy/highway.h>

#include <algorithm>
#include <array>
#include <type_traits>

#include "kernels/factors/low_rank.h"
#include "kernels/tensor/slice.h"

HWY_BEFORE_NAMESPACE();
namespace terngrad::cpu::HWY_NAMESPACE {
namespace hn = hwy::HWY_NAMESPACE;

// The 16 float64 lanes take as many vectors as the target needs. Products of float32 are exact in float64, so a fused
// multiply-add rounds like a separate multiplication and addition.
using Wide = hn::CappedTag<double, 8>;
constexpr std::size_t kLanes = static_cast<std::size_t>(kFactorLanes);
constexpr std::size_t kVectors = kLanes / hn::MaxLanes(Wide());
constexpr int kGroup = 4;             // columns of a factor per pass
constexpr std::int64_t kStrip = 256;  // columns of M; divides a chunk

HWY_INLINE auto Widen(const float* from) {
  const Wide d;
  return hn::PromoteTo(d, hn::LoadU(hn::Rebind<float, Wide>(), from));
}

/// Sum of 16 lanes: lane j takes j + 8, then 4, 2, 1.
HWY_INLINE double SumOfLanes(double* lanes) {
  for (std::size_t half = kLanes / 2; half > 0; half /= 2) {
    for (std::size_t j = 0; j < half; ++j) lanes[j] += lanes[j + half];
  }
  return lanes[0];
}

/// kRows rows of M times kColumns columns of Q.
template <int kRows, int kColumns>
HWY_NOINLINE void TimesColumns(const float* HWY_RESTRICT values, std::int64_t columns, const double* HWY_RESTRICT q,
                               std::int64_t stride, float* HWY_RESTRICT p, std::int64_t p_stride) {
  const Wide d;
  const std::size_t lanes = hn::Lanes(d);
  std::array<double, static_cast<std::size_t>(kRows * kColumns)> totals{};
  for (std::int64_t chunk = 0; chunk < columns; chunk += kChunkElements) {
    const std::int64_t end = std::min(columns, chunk + kChunkElements);
    HWY_ALIGN double sums[std::size_t{kRows}][std::size_t{kColumns}][kLanes] = {};
    // Works on strips that stay in the cache while they are read once per vector of lanes, so that the accumulators fit
    // in registers on every target.
    for (std::int64_t strip = chunk; strip < end; strip += kStrip) {
      const std::int64_t strip_end = std::min(end, strip + kStrip);
      for (std::size_t v = 0; v < kVectors; ++v) {
        const auto lane = static_cast<std::int64_t>(v * lanes);
        decltype(hn::Zero(d)) sum[std::size_t{kRows}][std::size_t{kColumns}];
        for (int row = 0; row < kRows; ++row) {
          for (int j = 0; j < kColumns; ++j) sum[row][j] = hn::Load(d, sums[row][j] + lane);
        }
        std::int64_t c = strip;
        for (; c + kFactorLanes <= strip_end; c += kFactorLanes) {
          for (int row = 0; row < kRows; ++row) {
            const auto value = Widen(values + row * columns + c + lane);
            for (int j = 0; j < kColumns; ++j) {
              sum[row][j] = hn::MulAdd(value, hn::LoadU(d, q + j * stride + c + lane), sum[row][j]);
            }
          }
        }
        for (int row = 0; row < kRows && c < strip_end; ++row) {
          HWY_ALIGN float rest[kLanes] = {};
          std::copy_n(values + row * columns + c, strip_end - c, rest);
          const auto value = Widen(rest + lane);
          for (int j = 0; j < kColumns; ++j) {
            sum[row][j] = hn::MulAdd(value, hn::LoadU(d, q + j * stride + c + lane), sum[row][j]);
          }
        }
        for (int row = 0; row < kRows; ++row) {
          for (int j = 0; j < kColumns; ++j) hn::Store(sum[row][j], d, sums[row][j] + lane);
        }
      }
    }
    for (int row = 0; row < kRows; ++row) {
      for (int j = 0; j < kColumns; ++j) {
        totals[static_cast<std::size_t>(row) * kColumns + static_cast<std::size_t>(j)] += SumOfLanes(sums[row][j]);
      }
    }
  }
  for (int row = 0; row < kRows; ++row) {
    for (int j = 0; j < kColumns; ++j) {
      p[j * p_stride + row] =
          static_cast<float>(totals[static_cast<std::size_t>(row) * kColumns + static_cast<std::size_t>(j)]);
    }
  }
}

template <int kColumns>
void TimesColumnsOfRows(const float* values, std::int64_t rows, std::int64_t columns, const double* q,
                        std::int64_t stride, float* p, std::int64_t p_stride) {
  constexpr int kRows = 4;
  std::int64_t row = 0;
  for (; row + kRows <= rows; row += kRows) {
    TimesColumns<kRows, kColumns>(values + row * columns, columns, q, stride, p + row, p_stride);
  }
  for (; row < rows; ++row) TimesColumns<1, kColumns>(values + row * columns, columns, q, stride, p + row, p_stride);
}

void TimesAllColumns(const float* values, std::int64_t rows, std::int64_t columns, const double* q, std::int64_t stride,
                     int rank, float* p, std::int64_t p_stride) {
  int j = 0;
  const auto run = [&](auto of_rows)
                       HWY_ATTR { of_rows(values, rows, columns, q + j * stride, stride, p + j * p_stride, p_stride); };
  for (; j + kGroup <= rank; j += kGroup) run(TimesColumnsOfRows<kGroup>);
  if (rank - j == 3) run(TimesColumnsOfRows<3>);
  if (rank - j == 2) run(TimesColumnsOfRows<2>);
  if (rank - j == 1) run(TimesColumnsOfRows<1>);
}

/// Adds kRows rows of 16 columns in order, for kColumns columns of P.
/// @param row_stride  distance between rows of values
/// @param p  in float64, kFactorBlockRows numbers per column
template <int kColumns, int kRows>
HWY_INLINE void AddRows(const float* HWY_RESTRICT values, std::int64_t row_stride, const double* HWY_RESTRICT p,
                        double* HWY_RESTRICT sums) {
  const Wide d;
  const std::size_t lanes = hn::Lanes(d);
  for (std::size_t v = 0; v < kVectors; ++v) {
    decltype(hn::Zero(d)) sum[std::size_t{kColumns}];
    double* const at = sums + v * lanes;
    for (int j = 0; j < kColumns; ++j) sum[j] = hn::Load(d, at + j * kFactorLanes);
    for (int row = 0; row < kRows; ++row) {
      const auto value = Widen(values + row * row_stride + static_cast<std::int64_t>(v * lanes));
      for (int j = 0; j < kColumns; ++j) {
        sum[j] = hn::MulAdd(value, hn::Set(d, p[j * kFactorBlockRows + row]), sum[j]);
      }
    }
    for (int j = 0; j < kColumns; ++j) hn::Store(sum[j], d, at + j * kFactorLanes);
  }
}

/// The same for whole tiles of a panel. @param sums  [tiles][rank][kFactorLanes]
template <int kColumns, int kRows>
HWY_NOINLINE void AddRowsOfTiles(const float* values, std::int64_t row_stride, std::int64_t num_tiles, const double* p,
                                 int rank, double* sums) {
  for (std::int64_t tile = 0; tile < num_tiles; ++tile) {
    AddRows<kColumns, kRows>(values + tile * kFactorLanes, row_stride, p, sums + tile * rank * kFactorLanes);
  }
}

/// The same for all columns of P.
template <int kRows>
HWY_INLINE void AddRowsOfRank(const float* values, std::int64_t row_stride, std::int64_t num_tiles, const double* p,
                              int rank, double* sums) {
  int j = 0;
  const auto run = [&](auto add) HWY_ATTR {
    add(values, row_stride, num_tiles, p + j * kFactorBlockRows, rank, sums + j * kFactorLanes);
  };
  for (; j + kGroup <= rank; j += kGroup) run(AddRowsOfTiles<kGroup, kRows>);
  if (rank - j == 3) run(AddRowsOfTiles<3, kRows>);
  if (rank - j == 2) run(AddRowsOfTiles<2, kRows>);
  if (rank - j == 1) run(AddRowsOfTiles<1, kRows>);
}

/// The same for all rows of a block.
HWY_INLINE void AddBlock(const float* values, std::int64_t row_stride, std::int64_t rows, std::int64_t num_tiles,
                         const double* p, int rank, double* sums) {
  constexpr std::int64_t kTogether = 4;
  std::int64_t row = 0;
  for (; row + kTogether <= rows; row += kTogether) {
    AddRowsOfRank<kTogether>(values + row * row_stride, row_stride, num_tiles, p + row, rank, sums);
  }
  for (; row < rows; ++row) AddRowsOfRank<1>(values + row * row_stride, row_stride, num_tiles, p + row, rank, sums);
}

void AddBlocks(const float* values, std::int64_t rows, std::int64_t columns, std::int64_t num_columns, const float* p,
               int rank, double* slots) {
  const Wide d;
  const std::int64_t num_whole = num_columns / kFactorLanes;
  const std::int64_t rest = num_columns % kFactorLanes;
  const std::int64_t tile_width = rank * kFactorLanes;
  const std::int64_t width = (num_whole + (rest > 0 ? 1 : 0)) * tile_width;  // per slot
  HWY_ALIGN float padded[static_cast<std::size_t>(kFactorBlockRows) * kLanes] = {};
  HWY_ALIGN double wide_p[static_cast<std::size_t>(kMaxRank * kFactorBlockRows)];
  HWY_ALIGN double sums[static_cast<std::size_t>(kFactorPanelColumns * kMaxRank)];
  for (std::int64_t first = 0; first < rows; first += kFactorBlockRows) {
    const std::int64_t count = std::min(kFactorBlockRows, rows - first);
    for (int j = 0; j < rank; ++j) std::copy_n(p + j * rows + first, count, wide_p + j * kFactorBlockRows);
    std::fill_n(sums, width, 0.0);
    AddBlock(values + first * columns, columns, count, num_whole, wide_p, rank, sums);
    if (rest > 0) {
      for (std::int64_t row = 0; row < count; ++row) {
        std::copy_n(values + (first + row) * columns + num_whole * kFactorLanes, rest, padded + row * kFactorLanes);
      }
      AddBlock(padded, kFactorLanes, count, 1, wide_p, rank, sums + num_whole * tile_width);
    }
    const std::int64_t block = first / kFactorBlockRows;
    double* const slot = slots + block % kFactorSlots * width;
    if (block < kFactorSlots) {
      std::copy_n(sums, width, slot);
      continue;
    }
    const auto lanes = static_cast<std::int64_t>(hn::Lanes(d));
    for (std::int64_t i = 0; i < width; i += lanes) {
      hn::StoreU(hn::Add(hn::LoadU(d, slot + i), hn::Load(d, sums + i)), d, slot + i);
    }
  }
}

void LowRankRow(const float* p, std::int64_t p_stride, const float* HWY_RESTRICT q, std::int64_t q_stride, int rank,
                float* HWY_RESTRICT out, std::int64_t count) {
  const Wide d;
  const hn::Rebind<float, Wide> narrow;
  const auto lanes = static_cast<std::int64_t>(hn::Lanes(d));
  double wide_p[kMaxRank];
  for (int j = 0; j < rank; ++j) wide_p[j] = static_cast<double>(p[j * p_stride]);
  const auto write = [&](auto num_vectors, std::int64_t i) HWY_ATTR {
    constexpr std::size_t kTogether = decltype(num_vectors)::value;
    decltype(hn::Zero(d)) sum[kTogether];
    for (auto& each : sum) each = hn::Zero(d);
    for (int j = 0; j < rank; ++j) {
      const auto factor = hn::Set(d, wide_p[j]);
      const float* const from = q + j * q_stride + i;
      for (std::size_t v = 0; v < kTogether; ++v) {
        sum[v] = hn::MulAdd(factor, Widen(from + static_cast<std::int64_t>(v) * lanes), sum[v]);
      }
    }
    for (std::size_t v = 0; v < kTogether; ++v) {
      hn::StoreU(hn::DemoteTo(narrow, sum[v]), narrow, out + i + static_cast<std::int64_t>(v) * lanes);
    }
  };
  std::int64_t i = 0;
  for (; i + 4 * lanes <= count; i += 4 * lanes) write(std::integral_constant<std::size_t, 4>(), i);
  for (; i + lanes <= count; i += lanes) write(std::integral_constant<std::size_t, 1>(), i);
  for (; i < count; ++i) {
    double sum = 0;
    for (int j = 0; j < rank; ++j) sum += wide_p[j] * static_cast<double>(q[j * q_stride + i]);
    out[i] = static_cast<float>(sum);
  }
}

}  // namespace terngrad::cpu::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
namespace terngrad::cpu {
HWY_EXPORT(TimesAllColumns);
HWY_EXPORT(AddBlocks);
HWY_EXPORT(LowRankRow);

void times_columns(const float* values, std::int64_t rows, std::int64_t columns, const double* q, std::int64_t stride,
                   int rank, float* p, std::int64_t p_stride) {
  HWY_DYNAMIC_DISPATCH(TimesAllColumns)(values, rows, columns, q, stride, rank, p, p_stride);
}
void add_blocks(const float* values, std::int64_t rows, std::int64_t columns, std::int64_t num_columns, const float* p,
                int rank, double* slots) {
  HWY_DYNAMIC_DISPATCH(AddBlocks)(values, rows, columns, num_columns, p, rank, slots);
}
void low_rank_row(const float* p, std::int64_t p_stride, const float* q, std::int64_t q_stride, int rank, float* out,
                  std::int64_t count) {
  HWY_DYNAMIC_DISPATCH(LowRankRow)(p, p_stride, q, q_stride, rank, out, count);
}
}  // namespace terngrad::cpu
#endif
