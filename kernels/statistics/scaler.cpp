#include "kernels/statistics/scaler.h"

#include <bit>
#include <vector>

#include "kernels/runtime/errors.h"
#include "kernels/statistics/common/local_scaler.h"
#include "kernels/statistics/cuda/statistics.h"

namespace terngrad {

float canonical_nan() { return std::bit_cast<float>(0x7fc00000u); }

double standard_deviation(const Statistics& statistics, std::int64_t count) {
  return common::standard_deviation(statistics, count);
}

float local_scaler(const Statistics& statistics, std::int64_t count, double clip_factor, ScalerRule rule) {
  return common::local_scaler(statistics, statistics.max_abs(), canonical_nan(), count, clip_factor, rule);
}

namespace {

void require_room(const StatisticsPlan& plan, std::span<const TensorTable> workers, std::span<float> out) {
  TERNGRAD_REQUIRE(out.size() == workers.size() * plan.slices().size(),
                   "[scaler] out must hold one scaler per worker and slice: need ",
                   workers.size() * plan.slices().size(), ", have ", out.size());
  for (const TensorTable& tensors : workers) {
    TERNGRAD_REQUIRE(tensors.type() == workers.front().type(),
                     "[scaler] all workers' gradients have one element type, got ",
                     element_type_name(workers.front().type()), " and ", element_type_name(tensors.type()));
  }
}

/// Statistics of one worker's slices. Thread-local and kept between calls, so that a step allocates nothing.
std::span<Statistics> workspace(std::size_t count) {
  static thread_local std::vector<Statistics> statistics;
  if (statistics.size() < count) statistics.resize(count);
  return std::span(statistics).first(count);
}

}  // namespace

void local_scalers(StatisticsPlan& plan, std::span<const TensorTable> workers, double clip_factor, ScalerRule rule,
                   std::span<float> out, Stream& stream) {
  const std::span<const Slice> slices = plan.slices();
  require_room(plan, workers, out);
  if (stream.device().is_cuda()) {
    return plan.on_cuda(stream).local_scalers(workers, clip_factor, rule, out.data(), stream);
  }
  const std::span<Statistics> statistics = workspace(slices.size());
  for (std::size_t worker = 0; worker < workers.size(); ++worker) {
    plan.run(workers[worker], statistics, stream, summed_as(rule));
    for (std::size_t i = 0; i < slices.size(); ++i) {
      out[worker * slices.size() + i] = local_scaler(statistics[i], slices[i].count, clip_factor, rule);
    }
  }
}

void model_scalers(StatisticsPlan& plan, std::span<const TensorTable> workers, double clip_factor, ScalerRule rule,
                   std::span<float> out, Stream& stream) {
  const std::span<const Slice> slices = plan.slices();
  require_room(plan, workers, out);
  if (stream.device().is_cuda()) {
    return plan.on_cuda(stream).model_scalers(workers, clip_factor, rule, out.data(), stream);
  }
  const std::span<Statistics> statistics = workspace(slices.size());
  for (std::size_t worker = 0; worker < workers.size(); ++worker) {
    plan.run(workers[worker], statistics, stream);
    Statistics all;
    std::int64_t count = 0;
    for (std::size_t i = 0; i < slices.size(); ++i) {
      if (statistics[i].is_nonfinite()) continue;
      all = combine(all, statistics[i]);
      count += slices[i].count;
    }
    const float scaler = local_scaler(all, count, clip_factor, rule);
    for (std::size_t i = 0; i < slices.size(); ++i) {
      out[worker * slices.size() + i] = statistics[i].is_nonfinite() ? canonical_nan() : scaler;
    }
  }
}

void nonfinite_flags(StatisticsPlan& plan, std::span<const TensorTable> workers, std::uint32_t first_nonfinite,
                     std::span<float> out, Stream& stream) {
  const std::span<const Slice> slices = plan.slices();
  require_room(plan, workers, out);
  if (stream.device().is_cuda()) {
    return plan.on_cuda(stream).nonfinite_flags(workers, first_nonfinite, out.data(), stream);
  }
  std::vector<std::uint32_t> largest(slices.size());
  for (std::size_t worker = 0; worker < workers.size(); ++worker) {
    plan.largest_bits(workers[worker], largest, stream);
    for (std::size_t i = 0; i < slices.size(); ++i) {
      out[worker * slices.size() + i] = largest[i] >= first_nonfinite ? canonical_nan() : 0.0f;
    }
  }
}

}  // namespace terngrad
