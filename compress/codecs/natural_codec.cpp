#include "compress/codecs/natural_codec.h"

#include "compress/codec/block_coder.h"
#include "compress/codec/scaled_runs.h"
#include "kernels/codes/exponents.h"
#include "kernels/codes/ternarize.h"
#include "kernels/runtime/errors.h"
#include "kernels/statistics/scaler_limits.h"

namespace terngrad {
namespace {

ScalerRule rule_of(const NaturalOptions& options) {
  if (options.bits == 8) return ScalerRule::kPowerOfTwo;
  return options.is_l2 ? ScalerRule::kL2 : ScalerRule::kPaper;  // max|g|, without clipping
}

class NaturalCoder final : public BlockCoder {
 public:
  NaturalCoder(const NaturalCodec& codec, const CoderSetup& setup, const std::vector<int>& segments,
               PayloadSlots& slots)
      : BlockCoder(codec, setup, segments, slots, codec.options().block_elements, rule_of(codec.options()), 0),
        bits_(codec.options().bits),
        quantizer_(setup.device) {}

  void encode(std::span<const TensorTable> gradients, const DeviceStep& step, Stream& stream) override {
    quantizer_.run(quantize_tasks(gradients), {.bits = bits_}, draw_key(step), stream, step.on_device);
  }

  void aggregate(const TensorTable& mean, AggregateUnit unit, Stream& stream) override {
    TERNGRAD_REQUIRE(unit == AggregateUnit::kMean, "[natural] codes do not add up as integers");
    aggregate_own(mean, leaf_format(exponent_format(bits_)), stream);
  }

 private:
  int bits_;
  ExponentQuantizer quantizer_;
};

}  // namespace

NaturalCodec::NaturalCodec(const NaturalOptions& options)
    : BlockCodec("natural", exponent_format(options.bits), options.block_elements, options.num_workers),
      options_(options) {}

CodecTraits NaturalCodec::traits() const {
  return {.bits_per_element = static_cast<double>(options_.bits), .max_scaler = kMaxScaler, .unbiased = true};
}

std::string NaturalCodec::options_text() const {
  return "bits=" + std::to_string(options_.bits) +
         (options_.bits == 8 ? ""
          : options_.is_l2   ? " norm=l2"
                             : " norm=max") +
         " block=" + std::to_string(options_.block_elements) + " workers=" + std::to_string(options_.num_workers);
}

std::unique_ptr<Coder> NaturalCodec::make_coder(const CoderSetup& setup, const std::vector<int>& segments,
                                                PayloadSlots& slots) const {
  return std::make_unique<NaturalCoder>(*this, setup, segments, slots);
}

NaturalOptions read_natural_options(SpecReader& reader) {
  NaturalOptions o;
  o.bits = reader.choice("bits", o.bits, {{"8", 8}, {"4", 4}}, "of an element: 127 or 7 powers of two of each sign");
  o.is_l2 = reader.choice("norm", o.is_l2, {{"max", false}, {"l2", true}}, "what the largest power stands for");
  reader.require_for("norm", o.bits == 4, "bits=4");
  o.block_elements = reader.integer("block", o.block_elements, 0, kMaxBlockElements,
                                    "elements per scaler; 0: one for a whole tensor", kMinBlockElements);
  return o;
}

}  // namespace terngrad
