#include "compress/codecs/sign_codec.h"

#include "compress/codec/block_coder.h"
#include "compress/codec/scaled_runs.h"
#include "kernels/codes/lanes.h"
#include "kernels/codes/rotate.h"
#include "kernels/codes/ternarize.h"
#include "kernels/codes/ternary_pack.h"
#include "kernels/codes/votes.h"
#include "kernels/runtime/errors.h"
#include "kernels/statistics/scaler_limits.h"

namespace terngrad {
namespace {

const char* text(SignScale scale) {
  switch (scale) {
    case SignScale::kL1:
      return "l1";
    case SignScale::kL2:
      return "l2";
    case SignScale::kDrive:
      return "drive";
    case SignScale::kOne:
      return "one";
  }
  TERNGRAD_THROW(InvalidArgument, "[sign] unknown scale ", static_cast<int>(scale));
}

ScalerRule rule_of(SignScale scale) {
  switch (scale) {
    case SignScale::kL2:
      return ScalerRule::kRootMeanSquare;
    case SignScale::kDrive:
      return ScalerRule::kSquaresOverMagnitudes;
    case SignScale::kOne:
      return ScalerRule::kOne;
    default:
      return ScalerRule::kMeanMagnitude;
  }
}

class SignCoder final : public BlockCoder {
 public:
  SignCoder(const SignCodec& codec, const CoderSetup& setup, const std::vector<int>& segments, PayloadSlots& slots)
      : BlockCoder(codec, setup, segments, slots, codec.options().block_elements, rule_of(codec.options().scale), 0),
        options_(codec.options()),
        format_(static_cast<CodeFormat>(codec.record_format(slots.form))),
        packer_(setup.device),
        vote_counter_(setup.device) {}

  void encode(std::span<const TensorTable> gradients, const DeviceStep& step, Stream& stream) override {
    const SignOptions options{.zeros = options_.zeros,
                              .votes = options_.votes,
                              .lanes = format_ == CodeFormat::kLanes,
                              .num_workers = options_.num_workers};
    packer_.run(quantize_tasks(rotated(gradients)), options, draw_key(step), stream, step.on_device);
  }

  void aggregate(const TensorTable& mean, AggregateUnit unit, Stream& stream) override {
    if (options_.votes) return vote_counter_.run(sum_tasks(mean, unit, format_, 1), stream);
    TERNGRAD_REQUIRE(unit == AggregateUnit::kMean, "[sign] signs with scalers of their own do not add up as integers");
    aggregate_own(mean, leaf_format(format_), stream);
  }

 private:
  SignCodecOptions options_;
  CodeFormat format_;  // format of payloads
  SignPacker packer_;
  VoteCounter vote_counter_;
};

}  // namespace

SignCodec::SignCodec(const SignCodecOptions& options)
    : BlockCodec("sign", CodeFormat::kBits, options.block_elements, options.num_workers), options_(options) {
  const bool of_votes = options.scale == SignScale::kOne;
  const bool of_both = options.scale == SignScale::kL1;
  TERNGRAD_REQUIRE(
      of_both || of_votes == options.votes, "[sign] scale=", text(options.scale),
      " does not go with reduce=", options.votes ? "vote; accepted: one, l1" : "mean; accepted: l1, l2, drive");
  TERNGRAD_REQUIRE(options.scale != SignScale::kOne || options.block_elements == 0,
                   "[sign] with scale=one all blocks have the same scaler; accepted with it: block=0");
  require_rotation(options.rotation);
  TERNGRAD_REQUIRE(!options.votes || options.rotation == 0, "[sign] rotate=", options.rotation,
                   ": a vote is no sum, so it cannot be turned back; accepted with reduce=vote: rotate=0");
  TERNGRAD_REQUIRE(!options.votes || options.num_workers <= kMaxSummedWorkers, "[sign] at most ", kMaxSummedWorkers,
                   " workers can vote, got ", options.num_workers);
}

CodecTraits SignCodec::traits() const {
  const bool is_rotated = options_.rotation != 0;
  return {.bits_per_element = 1,
          .max_scaler = kMaxScaler,
          .unbiased = false,
          .summable = options_.votes,
          .votes = options_.votes,
          // Without a rotation, signs of zeros and of small elements may add more than those of large ones tell.
          .is_contractive = options_.scale == SignScale::kL1 || (is_rotated && options_.scale != SignScale::kOne)};
}

ScalerSharing SignCodec::sharing() const {
  if (!options_.votes) return ScalerSharing::kNone;
  // kOne: the maximum is 1 even if some workers' tensors are not finite, whose scalers count as 0.
  return options_.scale == SignScale::kOne ? ScalerSharing::kMax : ScalerSharing::kMean;
}

SumForm SignCodec::sum_form() const {
  if (!options_.votes) return Codec::sum_form();
  return {.levels = 1, .block_elements = options_.block_elements, .drawn = CodeFormat::kT2, .votes = true};
}

std::string SignCodec::options_text() const {
  return std::string("reduce=") + (options_.votes ? "vote" : "mean") + " scale=" + text(options_.scale) +
         " zeros=" + (options_.zeros == ZeroSign::kPlus ? "plus" : "alternate") +
         " block=" + std::to_string(options_.block_elements) +
         (options_.rotation == 0 ? "" : " rotate=" + std::to_string(options_.rotation)) +
         " workers=" + std::to_string(options_.num_workers);
}

std::uint8_t SignCodec::record_format(PayloadForm form) const {
  return static_cast<std::uint8_t>(form == PayloadForm::kLanes ? CodeFormat::kLanes : CodeFormat::kBits);
}

std::int64_t SignCodec::max_payload_bytes(const Slice& slice, PayloadForm form) const {
  return payload_bytes(static_cast<CodeFormat>(record_format(form)), slice.count, options_.num_workers, 1);
}

std::unique_ptr<Coder> SignCodec::make_coder(const CoderSetup& setup, const std::vector<int>& segments,
                                             PayloadSlots& slots) const {
  return std::make_unique<SignCoder>(*this, setup, segments, slots);
}

bool SignCodec::is_lanes(const EncodedSlice& encoded) const {
  return options_.votes && encoded.format == record_format(PayloadForm::kLanes);
}

void SignCodec::check(const EncodedSlice& encoded) const {
  if (!is_lanes(encoded)) return BlockCodec::check(encoded);
  check_payload({CodeFormat::kLanes, encoded.payload, encoded.slice.count, options_.num_workers, 1});
}

void SignCodec::decode_range(const EncodedSlice& encoded, std::int64_t first, std::span<float> out) const {
  if (!is_lanes(encoded)) return BlockCodec::decode_range(encoded, first, out);
  std::vector<std::int32_t> counts(out.size());  // for one worker: its bit
  unpack_lanes(encoded.payload.data(), lane_bits(options_.num_workers, 1), first, counts);
  const std::int64_t block = options_.block_elements;
  for (std::size_t i = 0; i < out.size(); ++i) {
    const std::int64_t position = encoded.slice.first + first + static_cast<std::int64_t>(i);
    const std::int64_t scaler = block == 0 ? 0 : position / block - encoded.slice.first / block;
    out[i] = encoded.scalers[static_cast<std::size_t>(scaler)] * static_cast<float>(1 - 2 * counts[i]);
  }
}

SignCodecOptions read_sign_options(SpecReader& reader) {
  SignCodecOptions o;
  o.votes = reader.choice("reduce", o.votes, {{"mean", false}, {"vote", true}},
                          "of what every worker sent, or the sign that most have");
  o.scale = reader.choice(
      "scale", o.scale,
      {{"l1", SignScale::kL1}, {"l2", SignScale::kL2}, {"drive", SignScale::kDrive}, {"one", SignScale::kOne}},
      "of a sign: the mean magnitude, the root of the mean square, squares over magnitudes, or 1 (of votes)");
  o.zeros = reader.choice("zeros", o.zeros, {{"alternate", ZeroSign::kAlternate}, {"plus", ZeroSign::kPlus}},
                          "sign of elements that are 0: by the parity of step, worker and position, or plus");
  o.block_elements = reader.integer("block", o.block_elements, 0, kMaxBlockElements,
                                    "elements per scaler; 0: one for a whole tensor", kMinBlockElements);
  reader.require_for("block", o.scale != SignScale::kOne, "a scale other than one");
  o.rotation = reader.rotation(o.rotation);
  return o;
}

}  // namespace terngrad
