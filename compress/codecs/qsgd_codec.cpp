#include "compress/codecs/qsgd_codec.h"

#include <cmath>
#include <limits>
#include <sstream>

#include "compress/codec/scaled_runs.h"
#include "kernels/codes/code_sum.h"
#include "kernels/codes/lanes.h"
#include "kernels/codes/rotate.h"
#include "kernels/codes/ternary_pack.h"
#include "kernels/codes/tree_sum.h"
#include "kernels/runtime/errors.h"
#include "kernels/statistics/scaler_limits.h"

namespace terngrad {
namespace {

const char* text(LevelNorm norm) {
  switch (norm) {
    case LevelNorm::kMax:
      return "max";
    case LevelNorm::kPowerOfTwo:
      return "pow2";
    case LevelNorm::kL2:
      return "l2";
    case LevelNorm::kRms:
      return "rms";
  }
  TERNGRAD_THROW(InvalidArgument, "[qsgd] unknown norm ", static_cast<int>(norm));
}

/// Below the smallest level d a draw has an error of |g| (d - |g|), which is below the gradient's square if d is less
/// than twice the root mean square. The largest of the elements over L >= 2 is that, unless few of many elements are
/// large.
bool is_contractive(const QsgdOptions& options) {
  const double levels = num_levels(options.bits);
  if (options.rounding == Rounding::kNearest) return true;
  if (options.norm == LevelNorm::kRms) return options.clip < 2 * levels;
  if (options.norm == LevelNorm::kL2) {
    return options.block_elements > 0 && 4 * levels * levels > static_cast<double>(options.block_elements);
  }
  return levels >= 2;
}

}  // namespace

QsgdCodec::QsgdCodec(const QsgdOptions& options) : options_(options) {
  level_format(options.bits);  // refuses other bits
  require_block_elements(options.block_elements, "qsgd");
  require_rotation(options.rotation);
  TERNGRAD_REQUIRE(std::isfinite(options.clip) && options.clip > 0, "[qsgd] clip must be positive, got ", options.clip);
  TERNGRAD_REQUIRE(options.num_workers >= 1, "[qsgd] num_workers must be at least 1, got ", options.num_workers);
  const std::int64_t max_sum = std::int64_t{num_levels(options.bits)} * options.num_workers;
  TERNGRAD_REQUIRE(!options.is_shared || (max_sum < kMaxExactSum && options.num_workers <= kMaxSummedWorkers),
                   "[qsgd] sharing=max adds up the codes of all workers, which must stay below ", kMaxExactSum,
                   "; with ", options.bits, " bits ", options.num_workers, " workers are too many");
}

const std::string& QsgdCodec::name() const {
  static const std::string name = "qsgd";
  return name;
}

CodecTraits QsgdCodec::traits() const {
  return {.bits_per_element = static_cast<double>(options_.bits),
          .fixed_size = true,
          .max_scaler = kMaxScaler,
          .unbiased = options_.rounding != Rounding::kNearest && options_.norm != LevelNorm::kRms,
          .wants_error_feedback = false,
          .summable = options_.is_shared,
          .levels = num_levels(options_.bits),
          .is_contractive = is_contractive(options_),
          .is_stratified = options_.rounding == Rounding::kStratified};
}

SumForm QsgdCodec::sum_form() const {
  if (!options_.is_shared) return Codec::sum_form();
  return {num_levels(options_.bits), options_.block_elements, CodeFormat::kT2};
}

std::string QsgdCodec::options_text() const {
  std::ostringstream out;
  out.precision(17);
  out << "bits=" << options_.bits << " norm=" << text(options_.norm) << " block=" << options_.block_elements
      << " rounding=" << to_string(options_.rounding) << " sharing=" << (options_.is_shared ? "max" : "none");
  if (options_.norm == LevelNorm::kRms) out << " clip=" << options_.clip;
  if (options_.rotation != 0) out << " rotate=" << options_.rotation;
  out << " workers=" << options_.num_workers;
  return out.str();
}

std::int64_t QsgdCodec::num_scalers(std::int64_t num_elements) const {
  return num_block_scalers(num_elements, options_.block_elements);
}

Codec::ScalerRange QsgdCodec::scaler_range(const Slice& slice) const {
  return block_scaler_range(slice, options_.block_elements);
}

std::uint8_t QsgdCodec::record_format(PayloadForm form) const {
  return static_cast<std::uint8_t>(form == PayloadForm::kLanes ? CodeFormat::kLanes : level_format(options_.bits));
}

std::int64_t QsgdCodec::max_payload_bytes(const Slice& slice, PayloadForm form) const {
  return payload_bytes(static_cast<CodeFormat>(record_format(form)), slice.count, options_.num_workers,
                       2 * num_levels(options_.bits));
}

std::optional<Codec::LeafForm> QsgdCodec::leaf_form() const {
  return LeafForm{leaf_format(level_format(options_.bits)), options_.block_elements};
}

void QsgdCodec::check(const EncodedSlice& encoded) const {
  const bool is_lanes = options_.is_shared && encoded.format == record_format(PayloadForm::kLanes);
  if (encoded.format != record_format(PayloadForm::kNatural) && !is_lanes) {
    TERNGRAD_THROW(CommunicationError, "[qsgd] format ", static_cast<int>(encoded.format), " of segment ",
                   encoded.slice.segment, " is not this run's (", to_string(level_format(options_.bits)), ")");
  }
  check_payload({static_cast<CodeFormat>(encoded.format), encoded.payload, encoded.slice.count, options_.num_workers,
                 2 * num_levels(options_.bits)});
}

void QsgdCodec::decode_range(const EncodedSlice& encoded, std::int64_t first, std::span<float> out) const {
  const auto format = static_cast<CodeFormat>(encoded.format);
  if (format != CodeFormat::kLanes) {
    const MeanTask task{.format = leaf_format(format),
                        .first = encoded.slice.first,
                        .count = encoded.slice.count,
                        .block_elements = options_.block_elements};
    return decode_leaf(task, {.payload = encoded.payload, .scalers = encoded.scalers.data()}, first, out);
  }
  const int levels = num_levels(options_.bits);
  std::vector<std::int32_t> counts(out.size());  // for one worker: code + L
  unpack_lanes(encoded.payload.data(), lane_bits(options_.num_workers, 2 * levels), first, counts);
  const std::int64_t block = options_.block_elements;
  for (std::size_t i = 0; i < out.size(); ++i) {
    const std::int64_t position = encoded.slice.first + first + static_cast<std::int64_t>(i);
    const std::int64_t scaler = block == 0 ? 0 : position / block - encoded.slice.first / block;
    const float unit = encoded.scalers[static_cast<std::size_t>(scaler)] / static_cast<float>(levels);
    out[i] = unit * static_cast<float>(counts[i] - levels);
  }
}

QsgdOptions read_qsgd_options(SpecReader& reader) {
  QsgdOptions o;
  o.bits =
      reader.choice("bits", o.bits, {{"2", 2}, {"4", 4}, {"8", 8}}, "of an element: 1, 7 or 127 levels of each sign");
  o.norm = reader.choice(
      "norm", o.norm,
      {{"max", LevelNorm::kMax}, {"pow2", LevelNorm::kPowerOfTwo}, {"l2", LevelNorm::kL2}, {"rms", LevelNorm::kRms}},
      "what the levels reach up to");
  o.block_elements = reader.integer("block", o.block_elements, 0, kMaxBlockElements,
                                    "elements per scaler; 0: one for a whole tensor", kMinBlockElements);
  o.rounding = reader.choice(
      "rounding", o.rounding,
      {{"stochastic", Rounding::kStochastic}, {"nearest", Rounding::kNearest}, {"stratified", Rounding::kStratified}},
      "stochastic is unbiased; stratified too, and the errors of different workers cancel; nearest draws "
      "nothing");
  o.is_shared = reader.choice("sharing", o.is_shared, {{"none", false}, {"max", true}},
                              "every worker's own scalers, or the largest for all, so that codes add up");
  o.clip = reader.number("clip", o.clip, std::numeric_limits<double>::min(), std::numeric_limits<double>::max(),
                         "of norm=rms: saturate at this many times the root of the mean square");
  reader.require_for("clip", o.norm == LevelNorm::kRms, "norm=rms");
  o.rotation = reader.rotation(o.rotation);
  return o;
}

}  // namespace terngrad
