#include "compress/codecs/ternary_codec.h"

#include <algorithm>
#include <cmath>
#include <sstream>

#include "kernels/codes/code_sum.h"
#include "kernels/codes/rotate.h"
#include "kernels/codes/ternarize.h"
#include "kernels/codes/tree_sum.h"
#include "kernels/runtime/errors.h"
#include "kernels/statistics/scaler_limits.h"

namespace terngrad {

namespace {

const char* text(ScalerSharing sharing) {
  return sharing == ScalerSharing::kMax ? "max" : sharing == ScalerSharing::kMean ? "mean" : "none";
}

}  // namespace

TernaryCodec::TernaryCodec(const TernaryOptions& options) : options_(options) {
  TERNGRAD_REQUIRE(std::isfinite(options.clip_factor) && options.clip_factor >= 0,
                   "[ternary] clip_factor must be 0 (no clipping) or positive, got ", options.clip_factor);
  TERNGRAD_REQUIRE(options.format != TernaryFormat::kLanes, "[ternary] format ", to_string(options.format),
                   " is for sums over workers (integer_sum, downlink codec sums); accepted: t2, t5, tmask, trans");
  TERNGRAD_REQUIRE(options.num_workers <= kMaxSummedWorkers, "[ternary] num_workers must be at most ",
                   kMaxSummedWorkers, ", got ", options.num_workers);
  TERNGRAD_REQUIRE(options.block_elements <= kMaxBlockElements, "[ternary] block_elements must be at most ",
                   kMaxBlockElements, ", got ", options.block_elements);
  TERNGRAD_REQUIRE(options.block_elements > 0 && options.block_elements % kMinBlockElements == 0,
                   "[ternary] block_elements must be a positive multiple of ", kMinBlockElements, ", got ",
                   options.block_elements);
  require_rotation(options.rotation);
  TERNGRAD_REQUIRE(!is_asymmetric() || options.sharing != ScalerSharing::kMean,
                   "[ternary] sharing=mean: with levels=asymmetric the scalers of a side are shared by max or none");
  TERNGRAD_REQUIRE(!is_asymmetric() || options.scope != ScalerScope::kModel,
                   "[ternary] scope=model: with levels=asymmetric the scalers of a side are for a layer or a block");
  TERNGRAD_REQUIRE(options.num_workers >= 1, "[ternary] num_workers must be at least 1, got ", options.num_workers);
}

const std::string& TernaryCodec::name() const {
  static const std::string name = "ternary";
  return name;
}

CodecTraits TernaryCodec::traits() const {
  const double bits = options_.format == TernaryFormat::kT5 ? 1.6 : 2.0;
  const bool draws = options_.rounding != Rounding::kNearest;
  return {.bits_per_element = bits,
          .fixed_size = has_fixed_size(options_.format),
          .max_scaler = kMaxScaler,
          .unbiased = draws && options_.clip_factor == 0 && options_.sharing != ScalerSharing::kMean,
          .wants_error_feedback = false,
          .summable = options_.sharing != ScalerSharing::kNone && !is_asymmetric(),
          .per_tensor = options_.scope != ScalerScope::kModel,
          // A draw's error of |g| (s - |g|) is below the gradient's square if s is below twice the root mean square.
          .is_contractive = !draws || (options_.clip_factor > 0 && options_.clip_factor < 2),
          .is_stratified = options_.rounding == Rounding::kStratified};
}

std::string TernaryCodec::options_text() const {
  std::ostringstream out;
  out.precision(17);
  out << "clip_factor=" << options_.clip_factor
      << " scaler=" << (options_.rule == ScalerRule::kPaper ? "paper" : "original")
      << " sharing=" << text(options_.sharing)
      << " clip_scope=" << (options_.clip_scope == ClipScope::kShared ? "shared" : "local") << " scope="
      << (options_.scope == ScalerScope::kLayer   ? "layer"
          : options_.scope == ScalerScope::kBlock ? "block"
                                                  : "model");
  if (options_.scope == ScalerScope::kBlock) out << " block=" << options_.block_elements;
  out << " format=" << to_string(options_.format);
  if (options_.rounding != Rounding::kStochastic) out << " rounding=" << to_string(options_.rounding);
  if (is_asymmetric()) out << " levels=asymmetric";
  if (options_.rotation != 0) out << " rotate=" << options_.rotation;
  out << " workers=" << options_.num_workers;
  return out.str();
}

std::int64_t TernaryCodec::num_scalers(std::int64_t num_elements) const {
  return scalers_each() * num_block_scalers(num_elements, kernel_block_elements());
}

Codec::ScalerRange TernaryCodec::scaler_range(const Slice& slice) const {
  const ScalerRange runs = block_scaler_range(slice, kernel_block_elements());
  return {scalers_each() * runs.first, scalers_each() * runs.count};
}

std::uint8_t TernaryCodec::record_format(PayloadForm form) const {
  return static_cast<std::uint8_t>(form == PayloadForm::kLanes ? TernaryFormat::kLanes : options_.format);
}

std::int64_t TernaryCodec::max_payload_bytes(const Slice& slice, PayloadForm form) const {
  return payload_bytes(static_cast<TernaryFormat>(record_format(form)), slice.count, options_.num_workers);
}

std::optional<Codec::LeafForm> TernaryCodec::leaf_form() const {
  return LeafForm{leaf_format(options_.format), kernel_block_elements(), is_asymmetric()};
}

void TernaryCodec::check(const EncodedSlice& encoded) const {
  const bool is_lanes = encoded.format == record_format(PayloadForm::kLanes) && traits().summable;
  if (encoded.format != record_format(PayloadForm::kNatural) && !is_lanes) {
    TERNGRAD_THROW(CommunicationError, "[ternary] format ", static_cast<int>(encoded.format), " of segment ",
                   encoded.slice.segment, " is not this run's (", to_string(options_.format), ")");
  }
  check_payload(
      {static_cast<TernaryFormat>(encoded.format), encoded.payload, encoded.slice.count, options_.num_workers});
}

void TernaryCodec::decode_range(const EncodedSlice& encoded, std::int64_t first, std::span<float> out) const {
  const std::int64_t block = kernel_block_elements();
  if (encoded.format != static_cast<std::uint8_t>(TernaryFormat::kLanes)) {
    const MeanTask task{.format = leaf_format(static_cast<TernaryFormat>(encoded.format)),
                        .first = encoded.slice.first,
                        .count = encoded.slice.count,
                        .block_elements = block,
                        .two_scalers = is_asymmetric()};
    return decode_leaf(task, {.payload = encoded.payload, .scalers = encoded.scalers.data()}, first, out);
  }
  std::vector<std::int16_t> codes(out.size());
  unpack_codes({TernaryFormat::kLanes, encoded.payload, encoded.slice.count, options_.num_workers}, first, codes);
  for (std::size_t i = 0; i < out.size(); ++i) {
    // A worker's lane holds code + 1, but unpacking subtracts the bias of a sum over all workers.
    const int code = codes[i] + options_.num_workers - 1;
    const std::int64_t position = encoded.slice.first + first + static_cast<std::int64_t>(i);
    const std::int64_t run = block == 0 ? 0 : position / block - encoded.slice.first / block;
    out[i] = encoded.scalers[static_cast<std::size_t>(run)] * static_cast<float>(code);
  }
}

}  // namespace terngrad
