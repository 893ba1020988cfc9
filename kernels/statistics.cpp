#include "kernels/statistics.h"

#include <algorithm>
#include <array>
#include <bit>

#include "kernels/errors.h"
#include "kernels/parallel.h"

namespace terngrad {
namespace {

std::int64_t num_chunks(std::int64_t count) { return (count + kChunkElements - 1) / kChunkElements; }

}  // namespace

float Statistics::max_abs() const { return std::bit_cast<float>(max_bits); }

Statistics combine(const Statistics& a, const Statistics& b) {
  return {a.sum + b.sum, a.sum_squares + b.sum_squares, std::max(a.max_bits, b.max_bits), 0};
}

Statistics combine_chunks(std::span<const Statistics> chunks) {
  if (chunks.empty()) return {};
  if (chunks.size() == 1) return chunks[0];
  std::array<Statistics, kStatisticsSlots> slots{};
  for (std::size_t chunk = 0; chunk < chunks.size(); ++chunk) {
    Statistics& slot = slots[chunk % kStatisticsSlots];
    slot = combine(slot, chunks[chunk]);
  }
  for (std::size_t distance = kStatisticsSlots / 2; distance > 0; distance /= 2) {
    for (std::size_t j = 0; j < distance; ++j) slots[j] = combine(slots[j], slots[j + distance]);
  }
  return slots[0];
}

StatisticsPlan::StatisticsPlan(std::vector<Slice> slices) : slices_(std::move(slices)) {
  first_chunk_.reserve(slices_.size() + 1);
  first_chunk_.push_back(0);
  for (const Slice& slice : slices_) first_chunk_.push_back(first_chunk_.back() + num_chunks(slice.count));
  partials_ = Buffer<Statistics>(first_chunk_.back());
}

void StatisticsPlan::run(const TensorTable& tensors, std::span<Statistics> out, Stream& stream) {
  TERNGRAD_REQUIRE(out.size() == slices_.size(), "[statistics] out must hold one entry per slice: need ",
                   slices_.size(), ", have ", out.size());
  parallel_for(stream.num_threads(), first_chunk_.back(), 8, [&](std::int64_t begin, std::int64_t end) {
    auto index = static_cast<std::size_t>(std::upper_bound(first_chunk_.begin(), first_chunk_.end(), begin) -
                                          first_chunk_.begin() - 1);
    for (std::int64_t chunk = begin; chunk < end; ++chunk) {
      while (chunk >= first_chunk_[index + 1]) ++index;
      const std::int64_t first = (chunk - first_chunk_[index]) * kChunkElements;
      const std::int64_t count = std::min(kChunkElements, slices_[index].count - first);
      partials_.data()[chunk] = cpu::chunk_statistics(tensors.slice(slices_[index]) + first, count);
    }
  });
  for (std::size_t index = 0; index < slices_.size(); ++index) {
    out[index] = combine_chunks(
        partials_.span().subspan(static_cast<std::size_t>(first_chunk_[index]),
                                 static_cast<std::size_t>(first_chunk_[index + 1] - first_chunk_[index])));
  }
}

Statistics measure(std::span<const float> values, Stream& stream) {
  Layout layout;
  layout.add("values", {static_cast<std::int64_t>(values.size())});
  StatisticsPlan plan(whole_segments(layout));
  Statistics result;
  // Kernels read through the table of pointers that other kernels write through; this one only reads.
  plan.run(TensorTable(layout, const_cast<float*>(values.data())), {&result, 1}, stream);
  return result;
}

}  // namespace terngrad
