#include "trainers/options/compression_option_checks.h"

#include <algorithm>
#include <cstdint>
#include <string>

#include "compress/codecs/codec_plan.h"
#include "compress/codecs/codec_registry.h"
#include "compress/exchange/all_reduce_options.h"
#include "kernels/runtime/errors.h"
#include "trainers/options/option_set.h"
#include "trainers/options/train_options.h"

namespace terngrad {
namespace {

/// Whether any tensor may travel as something else than fp32.
bool compresses(const TrainOptions& o) {
  if (o.codec_name() != "fp32") return true;
  return std::ranges::any_of(o.codec_for,
                             [](const std::string& rule) { return parse_codec_rule(rule).codec != "fp32"; });
}

/// Which codecs there are to be.
void check_codecs(const OptionSet& options, const TrainOptions& o) {
  for (const std::string& rule : o.codec_for) {
    CodecRule parsed;
    try {
      parsed = parse_codec_rule(rule);
      make_codec(parsed.codec, {});
    } catch (const InvalidArgument& error) {
      TERNGRAD_THROW(UsageError, "--codec_for ", rule, ": ", error.what());
    }
  }
  if (options.was_set("codec") && options.was_set("grad_bits")) {
    const std::string by_bits = o.grad_bits == 32 ? "fp32" : o.grad_bits == 16 ? "bf16" : "ternary";
    if (o.codec != "auto" && o.codec != by_bits) {
      TERNGRAD_THROW(UsageError, "--codec ", o.codec, ": contradicts --grad_bits ", o.grad_bits, ", which is ", by_bits,
                     "; give one of them, or values that agree");
    }
  }
}

/// Options that the codecs in use do not have.
void check_options_of_codecs(const OptionSet& options, const TrainOptions& o) {
  if (!uses_ternary(o)) {
    refuse_unused(
        options,
        {"clip_factor", "scaler", "scaler_sharing", "clip_scope", "scaler_scope", "block_size", "ternary_format"},
        "the codec ternary (--grad_bits 1)");
  }
  if (o.codec_name() == "fp32")
    refuse_unused(options, {"size_to_binarize", "quantize_logits"}, "a codec other than fp32");
  if (o.floating_grad_epoch > 0 && !compresses(o)) {
    refuse_unused(options, {"floating_grad_epoch"}, "a codec other than fp32 for the other epochs");
  }
}

/// What the library's own all-reduce leaves to say: the type of the elements.
void check_vendor(const OptionSet& options, const TrainOptions& o) {
  if (o.exchange != "vendor") {
    if (o.codec == "fp16") {
      TERNGRAD_THROW(UsageError, "--codec fp16: is for --exchange vendor; accepted with --exchange ", o.exchange,
                     ": auto, fp32, bf16, ternary");
    }
    return;
  }
  if (uses_ternary(o) || !o.codec_for.empty()) {
    TERNGRAD_THROW(
        UsageError, "--exchange vendor: adds floating-point numbers of one type, so the codec must be fp32, ",
        "bf16 or fp16 for all tensors; got ", o.codec_name(), o.codec_for.empty() ? "" : " with --codec_for");
  }
  refuse_unused(options, {"downlink_codec", "size_to_binarize", "quantize_logits", "floating_grad_epoch"},
                "an --exchange other than vendor");
  if (o.on_nonfinite == "zero") {
    throw UsageError(
        "--on_nonfinite zero: with --exchange vendor a sum does not tell whose gradient it was; accepted: stop, skip");
  }
}

void check_scalers(const OptionSet& options, const TrainOptions& o) {
  if (o.scaler_scope != "block") refuse_unused(options, {"block_size"}, "--scaler_scope block");
  if (o.clip_factor == 0) refuse_unused(options, {"clip_scope", "scaler"}, "a --clip_factor above 0");
  if (o.clip_scope == "local" && o.scaler_sharing == "none") {
    TERNGRAD_THROW(UsageError,
                   "--clip_scope local: has no effect with --scaler_sharing none, where each worker saturates at its "
                   "own scaler; accepted with it: shared");
  }
}

/// What needs codes that add up as integers.
void check_code_sums(const OptionSet& options, const TrainOptions& o) {
  if ((o.downlink_codec == "sums" || o.downlink_codec == "ternary") && !uses_ternary(o)) {
    TERNGRAD_THROW(UsageError, "--downlink_codec ", o.downlink_codec,
                   ": needs codes that add up as integers, those of the codec ternary (--grad_bits 1); accepted with ",
                   o.codec_name(), ": fp32, bf16");
  }
  if (o.scaler_sharing == "none" && (o.downlink_codec == "sums" || o.downlink_codec == "ternary")) {
    TERNGRAD_THROW(
        UsageError, "--downlink_codec ", o.downlink_codec,
        ": needs a scaler that all workers share; --scaler_sharing none gives each its own (accepted with it: fp32, "
        "bf16)");
  }
  if (o.exchange == "integer_sum") {
    if (!uses_ternary(o) || o.scaler_sharing == "none") {
      TERNGRAD_THROW(
          UsageError,
          "--exchange integer_sum: needs codes that add up as integers: the codec ternary with --scaler_sharing max "
          "or mean");
    }
    refuse_unused(options, {"ternary_format"}, "an --exchange other than integer_sum, which sends lanes");
  }
  if (o.downlink_codec == "sums" && o.exchange == "all_gather") {
    TERNGRAD_THROW(
        UsageError,
        "--downlink_codec sums: has no effect with --exchange all_gather, where no mean travels back; accepted "
        "with it: fp32, bf16, ternary; accepted with sums: --exchange auto, scatter_reduce, integer_sum");
  }
}

/// Options of what workers send each other.
void check_number_of_workers(const OptionSet& options, const TrainOptions& o) {
  if (o.num_nodes > 1) return;
  const std::string needs = "--num_nodes 2 or more: one worker shares and sends nothing";
  refuse_unused(options, {"scaler_sharing", "clip_scope", "reduce"}, needs);
  const bool has_server = o.strategy == "ps";  // to which it sends
  if (!has_server) refuse_unused(options, {"exchange"}, needs);
  if (o.downlink_codec == "sums" && !has_server) refuse_unused(options, {"downlink_codec"}, needs);
}

/// Whether some scaler of a tensor is of one element alone.
bool has_scaler_of_one_element(const TrainOptions& o, std::int64_t num_elements) {
  if (o.scaler_scope == "block") return num_elements % o.block_size == 1;
  return o.scaler_scope == "layer" && num_elements == 1;
}

}  // namespace

void check_compression_options(const OptionSet& options, const TrainOptions& o) {
  check_codecs(options, o);
  check_options_of_codecs(options, o);
  check_vendor(options, o);
  check_scalers(options, o);
  check_code_sums(options, o);
  check_number_of_workers(options, o);
}

void check_codec_plan(const TrainOptions& o, const CodecPlan& plan) {
  const std::string codec = o.codec_name();
  if (codec == "fp32") return;  // nothing was asked for that could go missing
  const auto uses = [&](const CodecPlan::Group& group) { return group.codec->name() == codec; };
  if (std::ranges::any_of(plan.groups(), uses)) return;
  const std::string given = o.codec != "auto" ? "--codec " + o.codec : "--grad_bits " + std::to_string(o.grad_bits);
  TERNGRAD_THROW(UsageError, given, ": has no effect here; no tensor of --net ", o.net, " is left to travel as ", codec,
                 " by --codec_for, --size_to_binarize and --quantize_logits");
}

std::string note_on_scalers(const TrainOptions& o, const Layout& layout) {
  if (o.scaler != "original" || !uses_ternary(o)) return "";
  const CodecPlan plan(layout, exchange_options(o, 0, 1).codecs);
  std::string names;
  for (const CodecPlan::Group& group : plan.groups()) {
    if (group.codec->name() != "ternary") continue;
    for (const int index : group.segments) {
      const Segment& segment = layout.segment(index);
      if (has_scaler_of_one_element(o, segment.num_elements)) names += (names.empty() ? "" : ", ") + segment.name;
    }
  }
  if (names.empty()) return "";
  return "--scaler original: a scaler of one element is 0, as its standard deviation is, so that element never changes "
         "in " +
         names + "; --scaler paper sends it, and so does --codec_for NAME=fp32";
}

}  // namespace terngrad
