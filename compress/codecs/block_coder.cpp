#include "compress/codecs/block_coder.h"

#include "compress/codecs/scaled_runs.h"
#include "kernels/runtime/copy.h"

namespace terngrad {

BlockCoder::BlockCoder(const Codec& codec, const CoderSetup& setup, const std::vector<int>& segments,
                       PayloadSlots& slots, std::int64_t block_elements, ScalerRule rule, double factor)
    : Coder(codec, setup, segments, slots),
      block_elements_(block_elements),
      rule_(rule),
      factor_(factor),
      plan_(statistics_slices(setup.layout, segments, block_elements), setup.device),
      tree_summer_(setup.device) {
  if (block_elements_ == 0) return;
  Stream stream(setup.device);
  first_scalers_ = Buffer<std::int64_t>(static_cast<std::int64_t>(first_scalers().size()), setup.device);
  copy<std::int64_t>(first_scalers(), first_scalers_.span(), stream);
  stream.synchronize();
}

void BlockCoder::measure(std::span<const TensorTable> gradients, const DeviceStep&, Stream& stream) {
  local_scalers(plan_, gradients, factor_, rule_, local_rows(), stream);
  if (block_elements_ == 0) return;
  flag_whole_segments(local_rows().data(), setup().workers.num_local_workers, first_scalers_.data(),
                      static_cast<std::int64_t>(segments().size()), num_scalers(), stream);
}

std::span<const QuantizeTask> BlockCoder::quantize_tasks(std::span<const TensorTable> gradients) {
  tasks_.clear();
  for (std::size_t worker = 0; worker < gradients.size(); ++worker) {
    for (std::size_t i = 0; i < encoded().size(); ++i) {
      const auto& [slice, first_scaler] = encoded()[i];
      tasks_.push_back({.gradient = gradients[worker].data(slice),
                        .first = slice.first,
                        .count = slice.count,
                        .draw_offset = setup().layout.segment(slice.segment).draw_offset,
                        .block_elements = block_elements_,
                        .scalers = drawn_with(worker) + first_scaler,
                        .payload = outgoing(i, worker),
                        .worker = static_cast<std::uint32_t>(worker),
                        .type = gradients[worker].type()});
      outgoing_bytes(i, worker) = codec().max_payload_bytes(slice, slots().form);
    }
  }
  return tasks_;
}

DrawKey BlockCoder::draw_key(const DeviceStep& step) const {
  return {setup().seed, step.step, static_cast<std::uint32_t>(setup().workers.first_local_worker),
          DrawPurpose::kQuantize};
}

void BlockCoder::aggregate_own(const TensorTable& mean, LeafFormat format, Stream& stream) {
  const auto n = static_cast<std::size_t>(slots().num_payloads);
  leaves_.resize(aggregated().size() * n);
  mean_tasks_.clear();
  for (std::size_t i = 0; i < aggregated().size(); ++i) {
    const auto& [slice, first_scaler] = aggregated()[i];
    for (std::size_t worker = 0; worker < n; ++worker) {
      leaves_[i * n + worker] = {.payload = {incoming(i)[worker], static_cast<std::size_t>(incoming_bytes(i)[worker])},
                                 .scalers = own(static_cast<int>(worker)) + first_scaler};
    }
    mean_tasks_.push_back({.format = format,
                           .workers = {leaves_.data() + i * n, n},
                           .first = slice.first,
                           .count = slice.count,
                           .block_elements = block_elements_,
                           .scale = 1.0f / static_cast<float>(setup().workers.num_workers),
                           .out = mean.slice(slice)});
  }
  tree_summer_.run(mean_tasks_, stream);
}

}  // namespace terngrad
