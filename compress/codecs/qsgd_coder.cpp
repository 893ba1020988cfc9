// Coder of codec qsgd, on either device.
#include <utility>
#include <vector>

#include "compress/codec/block_coder.h"
#include "compress/codecs/qsgd_codec.h"
#include "kernels/codes/code_sum.h"
#include "kernels/runtime/errors.h"

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
      return ScalerRule::kPaper;  // max|g|, without clipping
  }
}

class QsgdCoder final : public BlockCoder {
 public:
  QsgdCoder(const QsgdCodec& codec, const CoderSetup& setup, const std::vector<int>& segments, PayloadSlots& slots)
      : BlockCoder(codec, setup, segments, slots, codec.options().block_elements, rule_of(codec.options().norm),
                   codec.options().norm == LevelNorm::kRms ? codec.options().clip : 0),
        options_(codec.options()),
        format_(static_cast<CodeFormat>(codec.record_format(slots.form))),
        quantizer_(setup.device),
        code_summer_(setup.device) {}

  void encode(std::span<const TensorTable> gradients, const DeviceStep& step, Stream& stream) override {
    const LevelOptions options{.bits = options_.bits,
                               .lanes = format_ == CodeFormat::kLanes,
                               .num_workers = options_.num_workers,
                               .rounding = options_.rounding};
    quantizer_.run(quantize_tasks(rotated(gradients)), options, draw_key(step), stream, step.on_device);
  }

  void aggregate(const TensorTable& mean, AggregateUnit unit, Stream& stream) override {
    if (!options_.is_shared) {
      TERNGRAD_REQUIRE(unit == AggregateUnit::kMean, "[qsgd] codes have no common unit without a shared scaler");
      return aggregate_own(mean, leaf_format(format_), stream);
    }
    code_summer_.run(sum_tasks(mean, unit, format_, 2 * num_levels(options_.bits)), stream);
  }

 private:
  QsgdOptions options_;
  CodeFormat format_;  // format of payloads
  LevelQuantizer quantizer_;
  CodeSummer code_summer_;
};

}  // namespace

std::unique_ptr<Coder> QsgdCodec::make_coder(const CoderSetup& setup, const std::vector<int>& segments,
                                             PayloadSlots& slots) const {
  return std::make_unique<QsgdCoder>(*this, setup, segments, slots);
}

}  // namespace terngrad
