// The work of codec qsgd, on either device.
#include <utility>
#include <vector>

#include "compress/codecs/coder.h"
#include "compress/codecs/qsgd_codec.h"
#include "compress/codecs/scaled_runs.h"
#include "kernels/codes/code_sum.h"
#include "kernels/codes/tree_sum.h"
#include "kernels/runtime/copy.h"
#include "kernels/runtime/errors.h"
#include "kernels/statistics/statistics.h"

namespace terngrad {
namespace {

ScalerRule rule_of(LevelNorm norm) {
  switch (norm) {
    case LevelNorm::kPowerOfTwo:
      return ScalerRule::kPowerOfTwo;
    case LevelNorm::kL2:
      return ScalerRule::kL2;
    case LevelNorm::kRms:
      return ScalerRule::kRms;
    default:
      return ScalerRule::kPaper;  // max|g| where nothing is clipped
  }
}

class QsgdCoder final : public Coder {
 public:
  QsgdCoder(const QsgdCodec& codec, const CoderSetup& setup, const std::vector<int>& segments, PayloadSlots& slots)
      : Coder(codec, setup, segments, slots),
        options_(codec.options()),
        format_(static_cast<CodeFormat>(codec.record_format(slots.form))),
        plan_(statistics_slices(setup.layout, segments, options_.block_elements), setup.device),
        quantizer_(setup.device),
        code_summer_(setup.device),
        tree_summer_(setup.device),
        first_scalers_(static_cast<std::int64_t>(first_scalers().size()), setup.device),
        ones_(num_scalers(), setup.device) {
    Stream stream(setup.device);
    copy<std::int64_t>(first_scalers(), first_scalers_.span(), stream);
    copy<float>(std::vector<float>(static_cast<std::size_t>(num_scalers()), 1.0f), ones_.span(), stream);
    stream.synchronize();
  }

  bool can_overflow() const override { return !options_.is_shared; }

  void measure(std::span<const TensorTable> gradients, const DeviceStep&, Stream& stream) override {
    const double factor = options_.norm == LevelNorm::kRms ? options_.clip : 0;
    local_scalers(plan_, gradients, factor, rule_of(options_.norm), local_rows(), stream);
    if (options_.block_elements == 0) return;
    flag_whole_segments(local_rows().data(), setup().workers.num_local_workers, first_scalers_.data(),
                        static_cast<std::int64_t>(segments().size()), num_scalers(), stream);
  }

  void encode(std::span<const TensorTable> gradients, const DeviceStep& step, Stream& stream) override {
    tasks_.clear();
    for (std::size_t worker = 0; worker < gradients.size(); ++worker) {
      for (std::size_t i = 0; i < encoded().size(); ++i) {
        const auto& [slice, first_scaler] = encoded()[i];
        tasks_.push_back({.gradient = gradients[worker].data(slice),
                          .first = slice.first,
                          .count = slice.count,
                          .draw_offset = setup().layout.segment(slice.segment).draw_offset,
                          .block_elements = options_.block_elements,
                          .scalers = drawn_with(worker) + first_scaler,
                          .payload = outgoing(i, worker),
                          .worker = static_cast<std::uint32_t>(worker),
                          .type = gradients[worker].type()});
        outgoing_bytes(i, worker) = codec().max_payload_bytes(slice, slots().form);
      }
    }
    const DrawKey key{setup().seed, step.step, static_cast<std::uint32_t>(setup().workers.first_local_worker),
                      DrawPurpose::kQuantize};
    const LevelOptions options{.bits = options_.bits,
                               .lanes = format_ == CodeFormat::kLanes,
                               .num_workers = options_.num_workers,
                               .rounding = options_.rounding};
    quantizer_.run(tasks_, options, key, stream, step.on_device);
  }

  void aggregate(const TensorTable& mean, AggregateUnit unit, Stream& stream) override {
    if (!options_.is_shared) {
      TERNGRAD_REQUIRE(unit == AggregateUnit::kMean, "[qsgd] codes have no common unit without a shared scaler");
      return aggregate_unshared(mean, stream);
    }
    const float* scales_of = unit == AggregateUnit::kSums ? ones_.data() : scales().data();
    sum_tasks_.clear();
    for (std::size_t i = 0; i < aggregated().size(); ++i) {
      const auto& [slice, first_scaler] = aggregated()[i];
      sum_tasks_.push_back({.format = format_,
                            .payloads = incoming(i),
                            .payload_bytes = incoming_bytes(i),
                            .num_workers = options_.num_workers,
                            .first = slice.first,
                            .count = slice.count,
                            .block_elements = options_.block_elements,
                            .scales = scales_of + first_scaler,
                            .out = mean.slice(slice),
                            .lane_levels = 2 * num_levels(options_.bits)});
    }
    code_summer_.run(sum_tasks_, stream);
  }

 private:
  void aggregate_unshared(const TensorTable& mean, Stream& stream) {
    const auto n = static_cast<std::size_t>(slots().num_payloads);
    leaves_.resize(aggregated().size() * n);
    mean_tasks_.clear();
    for (std::size_t i = 0; i < aggregated().size(); ++i) {
      const auto& [slice, first_scaler] = aggregated()[i];
      for (std::size_t worker = 0; worker < n; ++worker) {
        leaves_[i * n + worker] = {
            .payload = {incoming(i)[worker], static_cast<std::size_t>(incoming_bytes(i)[worker])},
            .scalers = own(static_cast<int>(worker)) + first_scaler};
      }
      mean_tasks_.push_back({.format = leaf_format(format_),
                             .workers = {leaves_.data() + i * n, n},
                             .first = slice.first,
                             .count = slice.count,
                             .block_elements = options_.block_elements,
                             .scale = 1.0f / static_cast<float>(options_.num_workers),
                             .out = mean.slice(slice)});
    }
    tree_summer_.run(mean_tasks_, stream);
  }

  QsgdOptions options_;
  CodeFormat format_;  // of payloads
  StatisticsPlan plan_;
  LevelQuantizer quantizer_;
  CodeSummer code_summer_;
  TreeSummer tree_summer_;
  Buffer<std::int64_t> first_scalers_;
  Buffer<float> ones_;  // scales that leave sums as they are: a row
  std::vector<QuantizeTask> tasks_;
  std::vector<CodeSumTask> sum_tasks_;
  std::vector<MeanTask> mean_tasks_;
  std::vector<MeanLeaf> leaves_;
};

}  // namespace

std::unique_ptr<Coder> QsgdCodec::make_coder(const CoderSetup& setup, const std::vector<int>& segments,
                                             PayloadSlots& slots) const {
  return std::make_unique<QsgdCoder>(*this, setup, segments, slots);
}

}  // namespace terngrad
