#include "kernels/statistics/signed_statistics.h"

#include <algorithm>
#include <array>
#include <utility>

#include "kernels/runtime/errors.h"
#include "kernels/runtime/parallel.h"
#include "kernels/statistics/common/side_means.h"
#include "kernels/statistics/cuda/signed_statistics.h"
#include "kernels/statistics/scaler.h"
#include "kernels/statistics/statistics.h"
#include "kernels/tensor/cpu/widened_chunk.h"

namespace terngrad {
namespace {

/// Statistics of a followed by b: adds sums, takes the larger maxima.
SignedStatistics joined(const SignedStatistics& a, const SignedStatistics& b) {
  return {a.sum_positive + b.sum_positive, a.sum_negative + b.sum_negative, a.num_negative + b.num_negative,
          std::max(a.max_positive, b.max_positive), std::max(a.max_negative, b.max_negative)};
}

/// Combines the statistics of a group's parts, which are `stride` apart: step 4 of the tree.
SignedStatistics combine_parts(const SignedStatistics* parts, std::int64_t num_parts, std::int64_t stride) {
  if (num_parts == 1) return parts[0];
  std::array<SignedStatistics, kStatisticsSlots> slots{};
  for (std::int64_t part = 0; part < num_parts; ++part) {
    SignedStatistics& slot = slots[static_cast<std::size_t>(part) % kStatisticsSlots];
    slot = joined(slot, parts[part * stride]);
  }
  for (std::size_t distance = kStatisticsSlots / 2; distance > 0; distance /= 2) {
    for (std::size_t j = 0; j < distance; ++j) slots[j] = joined(slots[j], slots[j + distance]);
  }
  return slots[0];
}

/// Elements [first, first + count) of `values` as float32, converted into `room` if necessary.
const float* widened(const void* values, ElementType type, std::int64_t first, std::int64_t count,
                     std::vector<float>& room) {
  if (type == ElementType::kFloat32) return static_cast<const float*>(values) + first;
  if (room.size() < static_cast<std::size_t>(count)) room.resize(static_cast<std::size_t>(count));
  const void* from = element_at(values, type, first);
  if (type == ElementType::kBfloat16) {
    cpu::decode_bfloat16(static_cast<const std::uint16_t*>(from), room.data(), count);
  } else {
    cpu::decode_float16(static_cast<const std::uint16_t*>(from), room.data(), count);
  }
  return room.data();
}

}  // namespace

SignedStatisticsPlan::SignedStatisticsPlan(std::vector<SignedRun> runs, Device device)
    : runs_(std::move(runs)), device_(device) {
  std::int64_t num_partials = 0;
  for (const SignedRun& run : runs_) {
    const std::int64_t count = run.slice.count;
    TERNGRAD_REQUIRE(run.columns == 0 || (run.columns > 0 && run.slice.first == 0 && count % run.columns == 0),
                     "[signed statistics] ", count, " elements from ", run.slice.first, " are no rows of ",
                     run.columns);
    const std::int64_t part = run.columns == 0 ? kChunkElements : run.columns * kColumnBlockRows;
    const std::int64_t num_groups = count == 0 ? 0 : std::max<std::int64_t>(1, run.columns);
    const std::int64_t num_parts = (count + part - 1) / part;
    places_.push_back({num_groups_, num_groups, num_parts_, num_parts, num_partials});
    num_groups_ += num_groups;
    num_parts_ += num_parts;
    num_partials += num_parts * num_groups;
  }
  if (device.is_cuda()) {
    cuda_ = cuda::make_signed_statistics_runner(runs_, device);
  } else {
    partials_ = Buffer<SignedStatistics>(num_partials);
  }
}

void SignedStatisticsPlan::require_stream(const Stream& stream) const {
  TERNGRAD_REQUIRE(stream.device() == device_, "[signed statistics] the plan is for ", device_.name(),
                   ", the stream for ", stream.device().name());
}

void SignedStatisticsPlan::run(const TensorTable& tensors, std::span<SignedStatistics> out, Stream& stream) {
  TERNGRAD_REQUIRE(static_cast<std::int64_t>(out.size()) == num_groups_,
                   "[signed statistics] out must hold one entry per group: need ", num_groups_, ", have ", out.size());
  require_stream(stream);
  if (cuda_ != nullptr) return cuda_->statistics({&tensors, 1}, out.data(), stream);
  parallel_for(stream.num_threads(), num_parts_, 1, [&](std::int64_t begin, std::int64_t end) {
    // Kept between calls, so that a step allocates nothing.
    static thread_local std::vector<float> room;
    for (std::size_t i = 0; i < runs_.size(); ++i) {
      const Place& place = places_[i];
      const std::int64_t columns = runs_[i].columns;
      const std::int64_t part_elements = columns == 0 ? kChunkElements : columns * kColumnBlockRows;
      const std::int64_t last = std::min(end, place.first_part + place.num_parts);
      for (std::int64_t part = std::max(begin, place.first_part); part < last; ++part) {
        const std::int64_t index = part - place.first_part;
        const std::int64_t first = index * part_elements;
        const std::int64_t count = std::min(part_elements, runs_[i].slice.count - first);
        const float* values = widened(tensors.data(runs_[i].slice), tensors.type(), first, count, room);
        SignedStatistics* partial = partials_.data() + place.first_partial + index * place.num_groups;
        if (columns == 0) {
          *partial = cpu::signed_chunk_statistics(values, count);
        } else {
          cpu::column_statistics(values, count / columns, columns, partial);
        }
      }
    }
  });
  for (const Place& place : places_) {
    for (std::int64_t group = 0; group < place.num_groups; ++group) {
      out[static_cast<std::size_t>(place.first_group + group)] =
          combine_parts(partials_.data() + place.first_partial + group, place.num_parts, place.num_groups);
    }
  }
}

void SignedStatisticsPlan::side_means(std::span<const TensorTable> workers, std::span<float> out, Stream& stream) {
  const auto row = static_cast<std::size_t>(2 * num_groups_);
  TERNGRAD_REQUIRE(out.size() == workers.size() * row,
                   "[signed statistics] out must hold two scalers per worker and group: need ", workers.size() * row,
                   ", have ", out.size());
  for (const TensorTable& tensors : workers) {
    TERNGRAD_REQUIRE(tensors.type() == workers.front().type(),
                     "[signed statistics] all workers' gradients have one element type, got ",
                     element_type_name(workers.front().type()), " and ", element_type_name(tensors.type()));
  }
  require_stream(stream);
  if (cuda_ != nullptr) return cuda_->side_means(workers, out.data(), stream);
  groups_.resize(static_cast<std::size_t>(num_groups_));
  for (std::size_t worker = 0; worker < workers.size(); ++worker) {
    run(workers[worker], groups_, stream);
    for (std::size_t i = 0; i < runs_.size(); ++i) {
      const Place& place = places_[i];
      const std::int64_t count = runs_[i].slice.count / std::max<std::int64_t>(1, runs_[i].columns);
      for (std::int64_t group = place.first_group; group < place.first_group + place.num_groups; ++group) {
        common::write_side_means(groups_[static_cast<std::size_t>(group)], count, canonical_nan(),
                                 out.data() + worker * row + 2 * group);
      }
    }
  }
}

}  // namespace terngrad
