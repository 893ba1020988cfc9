#include "kernels/statistics/statistics.h"

#include <algorithm>
#include <array>
#include <bit>

#include "kernels/runtime/copy.h"
#include "kernels/runtime/errors.h"
#include "kernels/runtime/parallel.h"
#include "kernels/statistics/cuda/statistics.h"
#include "kernels/tensor/cpu/widened_chunk.h"

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

StatisticsPlan::StatisticsPlan(std::vector<Slice> slices, Device device) : slices_(std::move(slices)), device_(device) {
  if (device.is_cuda()) {
    cuda_ = cuda::make_statistics_runner(slices_, device);
    return;
  }
  first_chunk_.reserve(slices_.size() + 1);
  first_chunk_.push_back(0);
  for (const Slice& slice : slices_) first_chunk_.push_back(first_chunk_.back() + num_chunks(slice.count));
  partials_ = Buffer<Statistics>(first_chunk_.back());
}

void StatisticsPlan::require_device(const Stream& stream) const {
  TERNGRAD_REQUIRE(stream.device() == device_, "[statistics] the plan is for ", device_.name(), ", the stream for ",
                   stream.device().name());
}

cuda::StatisticsRunner& StatisticsPlan::on_cuda(const Stream& stream) {
  require_device(stream);
  TERNGRAD_REQUIRE(cuda_ != nullptr, "[statistics] the plan is for ", device_.name());
  return *cuda_;
}

void StatisticsPlan::run(const TensorTable& tensors, std::span<Statistics> out, Stream& stream, SummedAs summed) {
  TERNGRAD_REQUIRE(out.size() == slices_.size(), "[statistics] out must hold one entry per slice: need ",
                   slices_.size(), ", have ", out.size());
  require_device(stream);
  if (device_.is_cuda()) return cuda_->statistics({&tensors, 1}, out.data(), stream, summed);
  for_each_chunk(tensors, stream,
                 [&](const float* values, std::int64_t count) { return cpu::chunk_statistics(values, count, summed); });
  for (std::size_t index = 0; index < slices_.size(); ++index) {
    out[index] = combine_chunks(
        partials_.span().subspan(static_cast<std::size_t>(first_chunk_[index]),
                                 static_cast<std::size_t>(first_chunk_[index + 1] - first_chunk_[index])));
  }
}

void StatisticsPlan::largest_bits(const TensorTable& tensors, std::span<std::uint32_t> out, Stream& stream) {
  TERNGRAD_REQUIRE(out.size() == slices_.size(), "[statistics] out must hold one entry per slice: need ",
                   slices_.size(), ", have ", out.size());
  require_device(stream);
  TERNGRAD_REQUIRE(device_.is_cpu(), "[statistics] largest magnitudes alone are found on the CPU");
  for_each_chunk(tensors, stream, [](const float* values, std::int64_t count) {
    return Statistics{.max_bits = cpu::largest_bits(values, count)};
  });
  for (std::size_t index = 0; index < slices_.size(); ++index) {
    out[index] = 0;
    for (std::int64_t chunk = first_chunk_[index]; chunk < first_chunk_[index + 1]; ++chunk) {
      out[index] = std::max(out[index], partials_.data()[chunk].max_bits);
    }
  }
}

template <class Body>
void StatisticsPlan::for_each_chunk(const TensorTable& tensors, Stream& stream, const Body& body) {
  parallel_for(stream.num_threads(), first_chunk_.back(), 8, [&](std::int64_t begin, std::int64_t end) {
    auto index = static_cast<std::size_t>(std::upper_bound(first_chunk_.begin(), first_chunk_.end(), begin) -
                                          first_chunk_.begin() - 1);
    cpu::WidenedChunk widened;
    for (std::int64_t chunk = begin; chunk < end; ++chunk) {
      while (chunk >= first_chunk_[index + 1]) ++index;
      const std::int64_t first = (chunk - first_chunk_[index]) * kChunkElements;
      const std::int64_t count = std::min(kChunkElements, slices_[index].count - first);
      const float* values = widened.of(tensors.data(slices_[index]), tensors.type(), first, count);
      partials_.data()[chunk] = body(values, count);
    }
  });
}

Statistics measure(std::span<const float> values, Stream& stream, SummedAs summed) {
  Layout layout;
  layout.add("values", {static_cast<std::int64_t>(values.size())});
  StatisticsPlan plan(whole_segments(layout), stream.device());
  // The table's pointers are non-const because kernels also write through them; this call only reads.
  const TensorTable tensors(layout, const_cast<float*>(values.data()));
  Statistics result;
  if (stream.device().is_cpu()) {
    plan.run(tensors, {&result, 1}, stream, summed);
    return result;
  }
  Buffer<Statistics> on_device(1, stream.device());
  plan.run(tensors, on_device.span(), stream, summed);
  copy<Statistics>(on_device.span(), {&result, 1}, stream);
  stream.synchronize();
  return result;
}

}  // namespace terngrad
