#include "kernels/factors/low_rank.h"

#include <algorithm>
#include <array>
#include <cmath>

#include "kernels/factors/cpu/low_rank.h"
#include "kernels/runtime/errors.h"
#include "kernels/runtime/parallel.h"
#include "kernels/tensor/slice.h"

namespace terngrad {
namespace {

using cpu::kFactorBlockRows;
using cpu::kFactorLanes;
using cpu::kFactorPanelColumns;

constexpr std::int64_t kColumnSlots = 256;
constexpr std::int64_t kGrainElements = 65536;  // worth a thread
constexpr double kSmallestRatio = 0x1p-20;      // of a column's norm to what it was

void require(int rank, const Stream& stream) {
  TERNGRAD_REQUIRE(rank >= 1 && rank <= kMaxRank, "[low_rank] a rank is from 1 to ", kMaxRank, ", got ", rank);
  if (stream.device().is_cuda()) TERNGRAD_THROW(NotSupported, "[low_rank] there are no kernels for GPUs");
}

std::int64_t in_lanes(std::int64_t count) { return (count + kFactorLanes - 1) / kFactorLanes * kFactorLanes; }

double sum_of_products(const float* a, const float* b, std::int64_t count) {
  double total = 0;
  for (std::int64_t chunk = 0; chunk < count; chunk += kChunkElements) {
    const std::int64_t end = std::min(count, chunk + kChunkElements);
    std::array<double, static_cast<std::size_t>(kFactorLanes)> lanes{};
    std::int64_t i = chunk;
    for (; i + kFactorLanes <= end; i += kFactorLanes) {
      for (std::size_t lane = 0; lane < lanes.size(); ++lane) {
        lanes[lane] += static_cast<double>(a[i + static_cast<std::int64_t>(lane)]) *
                       static_cast<double>(b[i + static_cast<std::int64_t>(lane)]);
      }
    }
    for (std::size_t lane = 0; i < end; ++i, ++lane) {
      lanes[lane] += static_cast<double>(a[i]) * static_cast<double>(b[i]);
    }
    for (std::size_t half = lanes.size() / 2; half > 0; half /= 2) {
      for (std::size_t j = 0; j < half; ++j) lanes[j] += lanes[j + half];
    }
    total += lanes[0];
  }
  return total;
}

}  // namespace

FactorSizes factor_sizes(std::int64_t num_elements, std::int64_t columns, int rank) {
  const std::int64_t rows = num_elements / columns;
  return {rows, columns, static_cast<int>(std::min({static_cast<std::int64_t>(rank), rows, columns}))};
}

void LowRankProducts::times_columns(const Matrix& m, const float* q, int rank, float* p, Stream& stream) {
  require(rank, stream);
  if (m.rows == 0) return;
  const std::int64_t stride = in_lanes(m.columns);
  widened_.assign(static_cast<std::size_t>(rank * stride), 0.0);
  for (int j = 0; j < rank; ++j) std::copy_n(q + j * m.columns, m.columns, widened_.data() + j * stride);
  const std::int64_t grain = std::max<std::int64_t>(1, kGrainElements / std::max<std::int64_t>(1, m.columns));
  parallel_for(stream.num_threads(), m.rows, grain, [&](std::int64_t begin, std::int64_t end) {
    cpu::times_columns(m.values + begin * m.columns, end - begin, m.columns, widened_.data(), stride, rank, p + begin,
                       m.rows);
  });
}

void LowRankProducts::times_rows(const Matrix& m, const float* p, int rank, float* q, Stream& stream) {
  require(rank, stream);
  const std::int64_t num_panels = (m.columns + kFactorPanelColumns - 1) / kFactorPanelColumns;
  const std::int64_t num_slots = std::min(kColumnSlots, (m.rows + kFactorBlockRows - 1) / kFactorBlockRows);
  const auto num_parts = std::clamp<std::int64_t>(stream.num_threads(), 1, std::max<std::int64_t>(1, num_panels));
  slots_.resize(std::max(slots_.size(), static_cast<std::size_t>(num_parts)));
  parallel_for(stream.num_threads(), num_parts, 1, [&](std::int64_t begin, std::int64_t end) {
    for (std::int64_t part = begin; part < end; ++part) {
      std::vector<double>& slots = slots_[static_cast<std::size_t>(part)];
      for (std::int64_t panel = num_panels * part / num_parts; panel < num_panels * (part + 1) / num_parts; ++panel) {
        const std::int64_t first = panel * kFactorPanelColumns;
        const std::int64_t count = std::min(kFactorPanelColumns, m.columns - first);
        const std::int64_t width = in_lanes(count) * rank;  // of a slot
        slots.resize(std::max(slots.size(), static_cast<std::size_t>(num_slots * width)));
        cpu::add_blocks(m.values + first, m.rows, m.columns, count, p, rank, slots.data());
        // Slots without a block hold +0, which changes no sum that begins with it.
        for (std::int64_t half = kColumnSlots / 2; half > 0; half /= 2) {
          for (std::int64_t i = 0; i < std::min(half, num_slots - half) * width; ++i) {
            slots[static_cast<std::size_t>(i)] += slots[static_cast<std::size_t>(half * width + i)];
          }
        }
        for (int j = 0; j < rank; ++j) {
          for (std::int64_t c = 0; c < count; ++c) {
            const std::int64_t at = (c / kFactorLanes * rank + j) * kFactorLanes + c % kFactorLanes;
            q[j * m.columns + first + c] =
                num_slots == 0 ? 0.0f : static_cast<float>(slots[static_cast<std::size_t>(at)]);
          }
        }
      }
    }
  });
}

void LowRankProducts::orthonormalize(float* p, std::int64_t rows, int rank) {
  const auto column = [&](int j) { return p + j * rows; };
  for (int pass = 0; pass < 2; ++pass) {
    for (int j = 0; j < rank; ++j) {
      float* const own = column(j);
      const double before = std::sqrt(sum_of_products(own, own, rows));
      for (int i = 0; i < j; ++i) {
        const float* const other = column(i);
        const double c = sum_of_products(other, own, rows);
        for (std::int64_t row = 0; row < rows; ++row) {
          own[row] = static_cast<float>(static_cast<double>(own[row]) - c * static_cast<double>(other[row]));
        }
      }
      const double norm = std::sqrt(sum_of_products(own, own, rows));
      // Written so that NaN is among what becomes zeros.
      const bool is_kept = norm > before * kSmallestRatio && std::isfinite(norm);
      for (std::int64_t row = 0; row < rows; ++row) {
        own[row] = is_kept ? static_cast<float>(static_cast<double>(own[row]) / norm) : 0.0f;
      }
    }
  }
}

void low_rank_elements(const float* p, std::int64_t rows, const float* q, std::int64_t columns, int rank,
                       std::int64_t first, std::span<float> out) {
  auto left = static_cast<std::int64_t>(out.size());
  float* to = out.data();
  for (std::int64_t at = first; left > 0;) {
    const std::int64_t row = at / columns;
    const std::int64_t column = at % columns;
    const std::int64_t count = std::min(left, columns - column);
    cpu::low_rank_row(p + row, rows, q + column, columns, rank, to, count);
    at += count;
    to += count;
    left -= count;
  }
}

}  // namespace terngrad
