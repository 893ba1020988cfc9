#include "compress/codecs/fp8_codec.h"

#include "compress/codecs/block_coder.h"
#include "compress/codecs/scaled_runs.h"
#include "kernels/codes/fp8.h"
#include "kernels/codes/ternarize.h"
#include "kernels/codes/ternary_pack.h"
#include "kernels/codes/tree_sum.h"
#include "kernels/runtime/errors.h"
#include "kernels/statistics/scaler_limits.h"

namespace terngrad {
namespace {

constexpr auto kFormat = static_cast<std::uint8_t>(CodeFormat::kE4M3);

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

Fp8Codec::Fp8Codec(const Fp8CodecOptions& options) : options_(options) {
  require_block_elements(options.block_elements, "fp8");
  TERNGRAD_REQUIRE(options.num_workers >= 1, "[fp8] num_workers must be at least 1, got ", options.num_workers);
}

const std::string& Fp8Codec::name() const {
  static const std::string name = "fp8";
  return name;
}

CodecTraits Fp8Codec::traits() const {
  return {.bits_per_element = 8,
          .fixed_size = true,
          .max_scaler = kMaxScaler,
          .unbiased = options_.rounding == Rounding::kStochastic};
}

std::string Fp8Codec::options_text() const {
  return "block=" + std::to_string(options_.block_elements) +
         " rounding=" + (options_.rounding == Rounding::kStochastic ? "stochastic" : "nearest") +
         " workers=" + std::to_string(options_.num_workers);
}

std::int64_t Fp8Codec::num_scalers(std::int64_t num_elements) const {
  return num_block_scalers(num_elements, options_.block_elements);
}

Codec::ScalerRange Fp8Codec::scaler_range(const Slice& slice) const {
  return block_scaler_range(slice, options_.block_elements);
}

std::uint8_t Fp8Codec::record_format(PayloadForm) const { return kFormat; }

std::int64_t Fp8Codec::max_payload_bytes(const Slice& slice, PayloadForm) const {
  return payload_bytes(CodeFormat::kE4M3, slice.count, 1);
}

std::unique_ptr<Coder> Fp8Codec::make_coder(const CoderSetup& setup, const std::vector<int>& segments,
                                            PayloadSlots& slots) const {
  return std::make_unique<Fp8Coder>(*this, setup, segments, slots);
}

void Fp8Codec::check(const EncodedSlice& encoded) const {
  if (encoded.format != kFormat) {
    TERNGRAD_THROW(CommunicationError, "[fp8] format ", static_cast<int>(encoded.format), " of segment ",
                   encoded.slice.segment, " is not e4m3");
  }
  check_payload({CodeFormat::kE4M3, encoded.payload, encoded.slice.count, 1});
}

void Fp8Codec::decode_range(const EncodedSlice& encoded, std::int64_t first, std::span<float> out) const {
  const MeanTask task{.format = LeafFormat::kE4M3,
                      .first = encoded.slice.first,
                      .count = encoded.slice.count,
                      .block_elements = options_.block_elements};
  decode_leaf(task, {.payload = encoded.payload, .scalers = encoded.scalers.data()}, first, out);
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
