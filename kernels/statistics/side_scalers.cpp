#include "kernels/statistics/side_scalers.h"

#include <algorithm>
#include <bit>

#include "kernels/runtime/errors.h"
#include "kernels/runtime/parallel.h"
#include "kernels/statistics/common/side_scalers.h"
#include "kernels/statistics/cuda/side_scalers.h"
#include "kernels/tensor/cpu/widened_chunk.h"

namespace terngrad {

SideScalers side_scalers(const Statistics& statistics, const SideMax& max, std::int64_t count, double clip_factor,
                         ScalerRule rule) {
  const auto of_side = [&](std::uint32_t bits) {
    return common::side_scaler(statistics, bits, std::bit_cast<float>(bits), canonical_nan(), count, clip_factor, rule);
  };
  return {of_side(max.positive), of_side(max.negative)};
}

SideScalerPlan::SideScalerPlan(std::vector<Slice> slices, Device device)
    : statistics_(std::move(slices), device), device_(device) {
  first_chunk_.push_back(0);
  for (const Slice& slice : statistics_.slices()) {
    for (std::int64_t first = 0; first < slice.count; first += kChunkElements) {
      chunks_.push_back({slice.segment, slice.first + first, std::min(kChunkElements, slice.count - first)});
    }
    first_chunk_.push_back(static_cast<std::int64_t>(chunks_.size()));
  }
  if (device.is_cuda()) {
    cuda_ = cuda::make_side_scaler_runner(statistics_.slices(), chunks_, first_chunk_, device);
    return;
  }
  sums_.resize(statistics_.slices().size());
  maxima_ = Buffer<SideMax>(first_chunk_.back());
}

void SideScalerPlan::run(std::span<const TensorTable> workers, double clip_factor, ScalerRule rule,
                         std::span<float> out, Stream& stream) {
  const std::size_t row = 2 * slices().size();
  TERNGRAD_REQUIRE(out.size() == workers.size() * row, "[side_scalers] out must hold two per worker and slice: need ",
                   workers.size() * row, ", have ", out.size());
  TERNGRAD_REQUIRE(rule == ScalerRule::kPaper || rule == ScalerRule::kOriginal,
                   "[side_scalers] the rule must be paper or original");
  TERNGRAD_REQUIRE(stream.device() == device_, "[side_scalers] the plan is for ", device_.name(), ", the stream for ",
                   stream.device().name());
  for (const TensorTable& tensors : workers) {
    TERNGRAD_REQUIRE(tensors.type() == workers.front().type(),
                     "[side_scalers] all workers' gradients must have one element type");
  }
  if (device_.is_cuda()) return cuda_->run(statistics_, workers, clip_factor, rule, out.data(), stream);
  for (std::size_t worker = 0; worker < workers.size(); ++worker) {
    run_on_cpu(workers[worker], clip_factor, rule, out.data() + worker * row, stream);
  }
}

void SideScalerPlan::run_on_cpu(const TensorTable& tensors, double clip_factor, ScalerRule rule, float* out,
                                Stream& stream) {
  if (clip_factor > 0) statistics_.run(tensors, sums_, stream);
  parallel_for(stream.num_threads(), first_chunk_.back(), 8, [&](std::int64_t begin, std::int64_t end) {
    cpu::WidenedChunk widened;
    for (std::int64_t chunk = begin; chunk < end; ++chunk) {
      const Slice& slice = chunks_[static_cast<std::size_t>(chunk)];
      const float* values = widened.of(tensors.data(slice), tensors.type(), 0, slice.count);
      maxima_.data()[chunk] = cpu::chunk_side_max(values, slice.count);
    }
  });
  for (std::size_t i = 0; i < slices().size(); ++i) {
    SideMax max;
    for (std::int64_t chunk = first_chunk_[i]; chunk < first_chunk_[i + 1]; ++chunk) {
      max.positive = std::max(max.positive, maxima_.data()[chunk].positive);
      max.negative = std::max(max.negative, maxima_.data()[chunk].negative);
    }
    const SideScalers scalers = side_scalers(sums_[i], max, slices()[i].count, clip_factor, rule);
    out[2 * i] = scalers.positive;
    out[2 * i + 1] = scalers.negative;
  }
}

}  // namespace terngrad
