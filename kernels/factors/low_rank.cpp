#include "kernels/factors/low_rank.h"

#include <algorithm>
#include <array>
#include <cmath>

#include "kernels/factors/cpu/low_rank.h"
#include "kernels/factors/cuda/low_rank.h"
#include "kernels/runtime/errors.h"
#include "kernels/runtime/parallel.h"
#include "kernels/tensor/slice.h"

namespace terngrad {
namespace {

using cpu::kFactorPanelColumns;

constexpr std::int64_t kGrainElements = 65536;  // smallest work for a thread
constexpr std::int64_t kGrainChunks = 4;        // smallest work for a thread

void require_rank(int rank) {
  TERNGRAD_REQUIRE(rank >= 1 && rank <= kMaxRank, "[low_rank] a rank is from 1 to ", kMaxRank, ", got ", rank);
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

void make_orthonormal(const FactorTask& task) {
  const std::int64_t rows = task.m.rows;
  const auto column = [&](int j) { return task.p + j * rows; };
  for (int pass = 0; pass < 2; ++pass) {
    for (int j = 0; j < task.rank; ++j) {
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
      // False for NaN, so that NaN becomes zeros too.
      const bool is_kept = norm > before * kSmallestNormRatio && std::isfinite(norm);
      for (std::int64_t row = 0; row < rows; ++row) {
        own[row] = is_kept ? static_cast<float>(static_cast<double>(own[row]) / norm) : 0.0f;
      }
    }
  }
}

/// Computes one product on the CPU.
void write_product(const LowRankTask& task, const Stream& stream) {
  const std::int64_t count = task.sizes.rows * task.sizes.columns;
  parallel_for(stream.num_threads(), (count + kChunkElements - 1) / kChunkElements, kGrainChunks,
               [&](std::int64_t begin, std::int64_t end) {
                 std::array<float, kChunkElements> products;
                 for (std::int64_t chunk = begin; chunk < end; ++chunk) {
                   const std::int64_t first = chunk * kChunkElements;
                   const auto size = static_cast<std::size_t>(std::min(kChunkElements, count - first));
                   const std::span<float> out(task.out + first, size);
                   const std::span<float> product = task.from == nullptr ? out : std::span(products).first(size);
                   low_rank_elements(task.p, task.sizes.rows, task.q, task.sizes.columns, task.sizes.rank, first,
                                     product);
                   for (std::size_t i = 0; task.from != nullptr && i < size; ++i) {
                     out[i] = task.from[first + static_cast<std::int64_t>(i)] - product[i];
                   }
                 }
               });
}

}  // namespace

FactorSizes factor_sizes(std::int64_t num_elements, std::int64_t columns, int rank) {
  const std::int64_t rows = num_elements / columns;
  return {rows, columns, static_cast<int>(std::min({static_cast<std::int64_t>(rank), rows, columns}))};
}

LowRankProducts::LowRankProducts(Device device) : device_(device) {
  if (device.is_cuda()) cuda_ = cuda::make_low_rank_runner(device);
}

void LowRankProducts::require(std::span<const FactorTask> tasks, const Stream& stream) const {
  TERNGRAD_REQUIRE(stream.device() == device_, "[low_rank] made for ", device_.name(), ", the stream is for ",
                   stream.device().name());
  for (const FactorTask& task : tasks) require_rank(task.rank);
}

void LowRankProducts::times_columns(std::span<const FactorTask> tasks, Stream& stream) {
  require(tasks, stream);
  if (device_.is_cuda()) return cuda_->times_columns(tasks, stream);
  for (const FactorTask& task : tasks) times_columns(task, stream);
}

void LowRankProducts::times_rows(std::span<const FactorTask> tasks, Stream& stream) {
  require(tasks, stream);
  if (device_.is_cuda()) return cuda_->times_rows(tasks, stream);
  for (const FactorTask& task : tasks) times_rows(task, stream);
}

void LowRankProducts::orthonormalize(std::span<const FactorTask> tasks, Stream& stream) {
  require(tasks, stream);
  if (device_.is_cuda()) return cuda_->orthonormalize(tasks, stream);
  parallel_for(stream.num_threads(), static_cast<std::int64_t>(tasks.size()), 1,
               [&](std::int64_t begin, std::int64_t end) {
                 for (std::int64_t i = begin; i < end; ++i) make_orthonormal(tasks[static_cast<std::size_t>(i)]);
               });
}

void LowRankProducts::write_products(std::span<const LowRankTask> tasks, const std::uint32_t* skip, Stream& stream) {
  require({}, stream);
  for (const LowRankTask& task : tasks) require_rank(task.sizes.rank);
  if (device_.is_cuda()) return cuda_->write_products(tasks, skip, stream);
  if (skip != nullptr && *skip != 0) return;
  for (const LowRankTask& task : tasks) {
    if (task.flag == nullptr || !std::isnan(*task.flag)) write_product(task, stream);
  }
}

void LowRankProducts::times_columns(const FactorTask& task, const Stream& stream) {
  const Matrix& m = task.m;
  if (m.rows == 0) return;
  const std::int64_t stride = in_lanes(m.columns);
  widened_.assign(static_cast<std::size_t>(task.rank * stride), 0.0);
  for (int j = 0; j < task.rank; ++j) std::copy_n(task.q + j * m.columns, m.columns, widened_.data() + j * stride);
  const std::int64_t grain = std::max<std::int64_t>(1, kGrainElements / std::max<std::int64_t>(1, m.columns));
  parallel_for(stream.num_threads(), m.rows, grain, [&](std::int64_t begin, std::int64_t end) {
    cpu::times_columns(task.m.values + begin * task.m.columns, end - begin, task.m.columns, widened_.data(), stride,
                       task.rank, task.p + begin, task.m.rows);
  });
}

void LowRankProducts::times_rows(const FactorTask& task, const Stream& stream) {
  const Matrix& m = task.m;
  const int rank = task.rank;
  const std::int64_t num_panels = (m.columns + kFactorPanelColumns - 1) / kFactorPanelColumns;
  const std::int64_t num_slots = std::min(kFactorSlots, (m.rows + kFactorBlockRows - 1) / kFactorBlockRows);
  const auto num_parts = std::clamp<std::int64_t>(stream.num_threads(), 1, std::max<std::int64_t>(1, num_panels));
  slots_.resize(std::max(slots_.size(), static_cast<std::size_t>(num_parts)));
  parallel_for(stream.num_threads(), num_parts, 1, [&](std::int64_t begin, std::int64_t end) {
    for (std::int64_t part = begin; part < end; ++part) {
      std::vector<double>& slots = slots_[static_cast<std::size_t>(part)];
      for (std::int64_t panel = num_panels * part / num_parts; panel < num_panels * (part + 1) / num_parts; ++panel) {
        const std::int64_t first = panel * kFactorPanelColumns;
        const std::int64_t count = std::min(kFactorPanelColumns, m.columns - first);
        const std::int64_t width = in_lanes(count) * rank;  // per slot
        slots.resize(std::max(slots.size(), static_cast<std::size_t>(num_slots * width)));
        cpu::add_blocks(m.values + first, m.rows, m.columns, count, task.p, rank, slots.data());
        // Slots without a block count as +0. Skipping them changes no bit, since every sum begins with +0.
        for (std::int64_t half = kFactorSlots / 2; half > 0; half /= 2) {
          for (std::int64_t i = 0; i < std::min(half, num_slots - half) * width; ++i) {
            slots[static_cast<std::size_t>(i)] += slots[static_cast<std::size_t>(half * width + i)];
          }
        }
        for (int j = 0; j < rank; ++j) {
          for (std::int64_t c = 0; c < count; ++c) {
            const std::int64_t at = (c / kFactorLanes * rank + j) * kFactorLanes + c % kFactorLanes;
            task.q[j * m.columns + first + c] =
                num_slots == 0 ? 0.0f : static_cast<float>(slots[static_cast<std::size_t>(at)]);
          }
        }
      }
    }
  });
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
