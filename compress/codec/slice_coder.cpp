#include "compress/codec/slice_coder.h"

#include "kernels/runtime/copy.h"

namespace terngrad {

SliceCoder::SliceCoder(const Codec& codec, const CoderSetup& setup, const std::vector<int>& segments,
                       PayloadSlots& slots, std::int64_t block_elements)
    : Coder(codec, setup, segments, slots),
      block_elements_(block_elements),
      tree_summer_(setup.device),
      first_scalers_(static_cast<std::int64_t>(first_scalers().size()), setup.device) {
  Stream stream(setup.device);
  copy<std::int64_t>(first_scalers(), first_scalers_.span(), stream);
  if (codec.sharing() != ScalerSharing::kNone) {
    ones_ = Buffer<float>(num_scalers(), setup.device);
    copy<float>(std::vector<float>(static_cast<std::size_t>(num_scalers()), 1.0f), ones_.span(), stream);
  }
  stream.synchronize();
}

void SliceCoder::flag_whole_tensors(float* rows, Stream& stream) {
  flag_whole_segments(rows, setup().workers.num_local_workers, first_scalers_.data(),
                      static_cast<std::int64_t>(segments().size()), num_scalers(), stream);
}

std::span<const QuantizeTask> SliceCoder::quantize_tasks(std::span<const TensorTable> gradients, const float* rows) {
  tasks_.clear();
  // The workers' tasks for a slice come one after the other, since they may share draws.
  for (std::size_t i = 0; i < encoded().size(); ++i) {
    const auto& [slice, first_scaler] = encoded()[i];
    for (std::size_t worker = 0; worker < gradients.size(); ++worker) {
      const float* row =
          rows == nullptr ? drawn_with(worker) : rows + static_cast<std::int64_t>(worker) * num_scalers();
      tasks_.push_back({.gradient = gradients[worker].data(slice),
                        .first = slice.first,
                        .count = slice.count,
                        .draw_offset = setup().layout.segment(slice.segment).draw_offset,
                        .block_elements = block_elements_,
                        .scalers = row + first_scaler,
                        .payload = outgoing(i, worker),
                        .worker = static_cast<std::uint32_t>(worker),
                        .type = gradients[worker].type()});
      outgoing_bytes(i, worker) = codec().max_payload_bytes(slice, slots().form);
    }
  }
  return tasks_;
}

DrawKey SliceCoder::draw_key(const DeviceStep& step) const {
  return {setup().seed, step.step, static_cast<std::uint32_t>(setup().workers.first_local_worker),
          DrawPurpose::kQuantize};
}

std::span<const CodeSumTask> SliceCoder::sum_tasks(const TensorTable& mean, AggregateUnit unit, CodeFormat format,
                                                   int lane_levels) {
  const float* scales_of = unit == AggregateUnit::kSums ? ones_.data() : scales().data();
  sum_tasks_.clear();
  for (std::size_t i = 0; i < aggregated().size(); ++i) {
    const auto& [slice, first_scaler] = aggregated()[i];
    sum_tasks_.push_back({.format = format,
                          .payloads = incoming(i),
                          .payload_bytes = incoming_bytes(i),
                          .num_workers = setup().workers.num_workers,
                          .first = slice.first,
                          .count = slice.count,
                          .block_elements = block_elements_,
                          .scales = scales_of + first_scaler,
                          .out = mean.slice(slice),
                          .lane_levels = lane_levels});
  }
  return sum_tasks_;
}

void SliceCoder::aggregate_own(const TensorTable& mean, const MeanTask& leaves, Stream& stream) {
  const auto n = static_cast<std::size_t>(slots().num_payloads);
  leaves_.resize(aggregated().size() * n);
  mean_tasks_.clear();
  for (std::size_t i = 0; i < aggregated().size(); ++i) {
    const auto& [slice, first_scaler] = aggregated()[i];
    for (std::size_t worker = 0; worker < n; ++worker) {
      leaves_[i * n + worker] = {.payload = {incoming(i)[worker], static_cast<std::size_t>(incoming_bytes(i)[worker])},
                                 .scalers = own(static_cast<int>(worker)) + first_scaler};
    }
    MeanTask task = leaves;
    task.workers = {leaves_.data() + i * n, n};
    task.first = slice.first;
    task.count = slice.count;
    task.block_elements = block_elements_;
    task.scale = 1.0f / static_cast<float>(setup().workers.num_workers);
    task.out = mean.slice(slice);
    mean_tasks_.push_back(task);
  }
  tree_summer_.run(mean_tasks_, stream);
}

}  // namespace terngrad
