#include "compress/codecs/fp8_codec.h"

#include "compress/codec/block_coder.h"
#include "compress/codec/scaled_runs.h"
#include "kernels/codes/fp8.h"
#include "kernels/codes/ternarize.h"
#include "kernels/runtime/errors.h"
#include "kernels/statistics/scaler_limits.h"

namespace terngrad {
namespace {

class Fp8Coder final : public BlockCoder {
 public:
  Fp8Coder(const Fp8Codec& codec, const CoderSetup& setup, const std::vector<int>& segments, PayloadSlots& slots)
      : BlockCoder(codec, setup, segments, slots, codec.options().block_elements, ScalerRule::kMaxOver,
                   static_cast<double>(kMaxE4M3)),
        rounding_(codec.options().rounding),
        quantizer_(setup.device) {}

  void encode(std::span<const TensorTable> gradients, const DeviceStep& step, Stream& stream) override {
    quantizer_.run(quantize_tasks(gradients), {.rounding = rounding_}, draw_key(step), stream, step.on_device);
  }

  void aggregate(const TensorTable& mean, AggregateUnit unit, Stream& stream) override {
    TERNGRAD_REQUIRE(unit == AggregateUnit::kMean, "[fp8] codes do not add up as integers");
    aggregate_own(mean, LeafFormat::kE4M3, stream);
  }

 private:
  Rounding rounding_;
  Fp8Quantizer quantizer_;
};

}  // namespace

Fp8Codec::Fp8Codec(const Fp8CodecOptions& options)
    : BlockCodec("fp8", CodeFormat::kE4M3, options.block_elements, options.num_workers), options_(options) {}

CodecTraits Fp8Codec::traits() const {
  return {.bits_per_element = 8, .max_scaler = kMaxScaler, .unbiased = options_.rounding == Rounding::kStochastic};
}

std::string Fp8Codec::options_text() const {
  return "block=" + std::to_string(options_.block_elements) + " rounding=" + to_string(options_.rounding) +
         " workers=" + std::to_string(options_.num_workers);
}

std::unique_ptr<Coder> Fp8Codec::make_coder(const CoderSetup& setup, const std::vector<int>& segments,
                                            PayloadSlots& slots) const {
  return std::make_unique<Fp8Coder>(*this, setup, segments, slots);
}

Fp8CodecOptions read_fp8_options(SpecReader& reader) {
  Fp8CodecOptions o;
  o.block_elements = reader.integer("block", o.block_elements, 0, kMaxBlockElements,
                                    "elements per scaler; 0: one for a whole tensor", kMinBlockElements);
  o.rounding =
      reader.choice("rounding", o.rounding, {{"nearest", Rounding::kNearest}, {"stochastic", Rounding::kStochastic}},
                    "stochastic is unbiased, nearest draws nothing");
  return o;
}

}  // namespace terngrad
