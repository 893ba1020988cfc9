#include "trainers/options/compression_option_checks.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <cstdint>
#include <string>
#include <vector>

#include "compress/codecs/ternary_codec.h"
#include "compress/exchange/vendor_codecs.h"
#include "compress/memory/memory_options.h"
#include "compress/plan/codec_plan.h"
#include "compress/plan/codec_registry.h"
#include "kernels/runtime/errors.h"
#include "trainers/command_line/option_set.h"
#include "trainers/options/choice_words.h"
#include "trainers/options/chosen_codecs.h"
#include "trainers/options/gradient_handling.h"
#include "trainers/options/train_conditions.h"
#include "trainers/options/train_devices.h"
#include "trainers/options/train_options.h"

namespace terngrad {
namespace {

/// Refuses an option for a key of ternary that no codec uses, because the given specs set another value.
void check_key_option(const OptionSet& options, const std::vector<ChosenCodec>& codecs, const TernaryKeyOption& names,
                      const std::string& value) {
  if (!options.was_set(names.option)) return;
  // The value in canonical form; scope=block, because block lengths have an effect only there.
  const CodecSpec spec = canonical_codec_spec("ternary", {{names.key, value}, {"scope", "block"}});
  const std::string canonical = std::ranges::find(spec.options, names.key, &SpecOptions::value_type::first)->second;
  const auto takes_it = [&](const ChosenCodec& c) { return !c.names(names.key); };
  const auto differs = [&](const ChosenCodec& c) {
    return c.is_ternary() && c.names(names.key) && !c.value(names.key).empty() && c.value(names.key) != canonical;
  };
  auto other = std::ranges::find_if(codecs, differs);
  // If other codecs use the option, a --codec_for rule may set its own value.
  if (other == codecs.end() || (other->given.starts_with("--codec_for") && any_ternary(codecs, takes_it))) return;
  TERNGRAD_THROW(UsageError, "--", names.option, " ", value, ": contradicts ", names.key, "=", other->value(names.key),
                 " in ", other->given, "; give one of them, or values that agree");
}

/// Checks that with --exchange vendor the codec is an element type, as the library's own all-reduce needs.
void check_vendor(const TrainOptions& o) {
  if (o.exchange != TrainExchange::kVendor) {
    if (o.codec == "fp16") {
      TERNGRAD_THROW(UsageError, "--codec fp16: is for --exchange vendor; accepted with --exchange ",
                     word_of(o.exchange), ": auto, ", fmt::format("{}", fmt::join(codec_names(), ", ")));
    }
    return;
  }
  const std::vector<std::string> types = vendor_codec_names();
  if (std::ranges::find(types, o.codec_name()) == types.end() || !o.codec_for.empty()) {
    TERNGRAD_THROW(
        UsageError, "--exchange vendor: adds floating-point numbers of one type, so the codec must be fp32, ",
        "bf16 or fp16 for all tensors; got ", o.codec_name(), o.codec_for.empty() ? "" : " with --codec_for");
  }
  if (o.on_nonfinite == OnNonfinite::kZero) {
    throw UsageError(
        "--on_nonfinite zero: with --exchange vendor a sum does not tell whose gradient it was; accepted: stop, skip");
  }
}

/// Checks a codec against the memory. @param given  name of the memory in messages
void check_memory_of(const ChosenCodec& codec, MemoryKind kind, const std::string& given) {
  const CodecTraits traits = codec.codec->traits();
  if (kind == MemoryKind::kErrorFeedback && traits.votes) {
    TERNGRAD_THROW(UsageError, given, ": a vote is no sum, so what a message of ", codec.given,
                   " left out cannot be sent later; accepted with it: none, momentum; or reduce=mean");
  }
  if ((kind == MemoryKind::kErrorFeedback || kind == MemoryKind::kDgc) && traits.is_amplified) {
    TERNGRAD_THROW(UsageError, given, ": ", codec.given, " scales up what it sends, so what is left out would grow ",
                   "without bound; accepted with it: none, momentum; or scale=1");
  }
  if (kind == MemoryKind::kDgc && !traits.is_exact && !traits.is_sparse) {
    TERNGRAD_THROW(UsageError, given, ": masks the momentum of elements that were sent, and ", codec.given,
                   " sends all of them; accepted with it: none, ef, momentum; or a sparse codec, topk or randomk");
  }
}

/// Checks the workers' memory.
void check_memory(const OptionSet& options, const TrainOptions& o) {
  const MemoryOptions memory = parse_memory(memory_spec(o));
  if (memory.kind == MemoryKind::kNone) return;
  const std::string given = o.codec_memory != "auto" ? "--codec_memory " + o.codec_memory
                            : o.error_feedback == ErrorFeedback::kTrue
                                ? "--error_feedback true"
                                : "the memory " + memory_name(memory.kind) + " of " + chosen_codecs(o).front().given;
  if (options.was_set("error_feedback_decay") && memory.kind == MemoryKind::kErrorFeedback &&
      memory.decay != o.error_feedback_decay) {
    TERNGRAD_THROW(UsageError, "--error_feedback_decay ", o.error_feedback_decay, ": contradicts ", given,
                   "; give one of them, or values that agree");
  }
  if (o.exchange == TrainExchange::kVendor) {
    TERNGRAD_THROW(UsageError, given, ": --exchange vendor sends gradients as they are; accepted with it: none");
  }
  for (const ChosenCodec& codec : chosen_codecs(o)) check_memory_of(codec, memory.kind, given);
  if (!compresses(o)) {
    TERNGRAD_THROW(UsageError, given, ": the codec fp32 loses nothing that could be kept; accepted with it: none");
  }
  if (memory.kind != MemoryKind::kDgc) return;
  if (o.optimizer != "gd") {
    TERNGRAD_THROW(UsageError, given, ": has the momentum in itself, and --optimizer ", o.optimizer,
                   " would count it twice or rescale it; accepted with it: --optimizer gd");
  }
  if (o.has_floating_steps()) {
    TERNGRAD_THROW(UsageError, given, ": has the momentum in itself, and rests in steps of --floating_grad_epoch and ",
                   "--compress_from; accepted with it: neither, or the warm-up of topk (stage_steps)");
  }
}

/// sign:scale=one decodes to +-1, unlike gradients' magnitudes, so all tensors must use it.
void check_unit_signs(const TrainOptions& o) {
  const std::vector<ChosenCodec> codecs = chosen_codecs(o);
  const auto is_unit = [](const ChosenCodec& c) { return c.spec.name == "sign" && c.value("scale") == "one"; };
  const auto unit = std::ranges::find_if(codecs, is_unit);
  if (unit == codecs.end()) return;
  const bool is_alone =
      std::ranges::all_of(codecs, is_unit) && o.quantize_logits && o.size_to_binarize <= 1 && !o.has_floating_steps();
  if (is_alone) return;
  TERNGRAD_THROW(
      UsageError, unit->given,
      ": scale=one moves every element by the learning rate, which tensors that travel otherwise would need "
      "another one beside; accepted: it for all tensors in all steps (--quantize_logits, --size_to_binarize 1, "
      "without --floating_grad_epoch and --compress_from), or scale=l1");
}

/// Refuses a key without effect whose value is not the default. @param needs  unmet need of the key
void refuse_key_without_effect(const ChosenCodec& codec, const char* key, const std::string& needs) {
  if (!codec.names(key)) return;
  const std::vector<SpecKey> keys = codec_keys(codec.spec.name);
  const std::string& neutral = std::ranges::find(keys, key, &SpecKey::name)->default_value;
  if (codec.value(key) == neutral) return;
  TERNGRAD_THROW(UsageError, codec.given, ": ", key, "=", codec.value(key), " has no effect here; it needs ", needs,
                 "; accepted here: ", neutral, ", its default");
}

void check_scalers(const TrainOptions& o) {
  const std::vector<ChosenCodec> codecs = chosen_codecs(o);
  const auto is_local = [](const ChosenCodec& c) { return c.value("clip_scope") == "local"; };
  const auto is_shared = [](const ChosenCodec& c) { return c.value("sharing") != "none"; };
  if (o.clip_scope == "local" && any_ternary(codecs, is_local) &&
      !any_ternary(codecs, [&](const ChosenCodec& c) { return is_local(c) && is_shared(c); })) {
    TERNGRAD_THROW(UsageError,
                   "--clip_scope local: has no effect with --scaler_sharing none, where each worker saturates at its "
                   "own scaler; accepted with it: shared");
  }
  for (const ChosenCodec& codec : codecs) {
    if (!codec.is_ternary()) continue;
    if (codec.value("clip_factor") == "0") {
      for (const char* key : {"clip_scope", "scaler"}) refuse_key_without_effect(codec, key, "a clip_factor above 0");
    }
    if (!is_shared(codec)) {
      refuse_key_without_effect(codec, "clip_scope", "a sharing other than none, where workers saturate at their own");
    }
  }
}

/// Refuses codecs whose payloads cannot be cut at every chunk, as the shards of servers that update parameters are.
void check_shards(const TrainOptions& o) {
  if (!o.pulls_parameters()) return;
  const std::vector<ChosenCodec> codecs = chosen_codecs(o);
  const auto has_grain = [](const ChosenCodec& c) { return c.codec->traits().grain_elements != kChunkElements; };
  const auto uncut = std::ranges::find_if(codecs, has_grain);
  if (uncut == codecs.end()) return;
  TERNGRAD_THROW(UsageError, "--pull parameters: servers cut tensors anywhere into the shards that they update, and ",
                 uncut->given, " takes whole tensors or blocks; accepted with it: gradient");
}

/// Checks options that need codes that add up as integers.
void check_code_sums(const TrainOptions& o) {
  const std::vector<ChosenCodec> codecs = chosen_codecs(o);
  const bool any_adds_up = std::ranges::any_of(codecs, [](const ChosenCodec& c) { return c.codec->traits().summable; });
  const bool returns_codes = o.downlink_codec == DownlinkCodec::kSums || o.downlink_codec == DownlinkCodec::kTernary;
  const auto has_own_scalers = [](const ChosenCodec& c) { return c.codec->sharing() == ScalerSharing::kNone; };
  const auto own = std::ranges::find_if(codecs, has_own_scalers);
  if (returns_codes && own != codecs.end()) {
    TERNGRAD_THROW(UsageError, "--downlink_codec ", word_of(o.downlink_codec),
                   ": needs a scaler that all workers share; ",
                   own->names("sharing") || !own->is_ternary() ? own->given : "--scaler_sharing none",
                   " gives each its own (accepted with it: fp32, bf16)");
  }
  const auto returns_none = [](const ChosenCodec& c) { return !may_return_codes(*c.codec); };
  const auto decoded = std::ranges::find_if(codecs, returns_none);
  if (returns_codes && decoded != codecs.end()) {
    TERNGRAD_THROW(UsageError, "--downlink_codec ", word_of(o.downlink_codec),
                   ": needs codes that add up as integers, which ", decoded->given,
                   " does not have (accepted with it: fp32, bf16)");
  }
  if (returns_codes && !any_adds_up) {
    TERNGRAD_THROW(UsageError, "--downlink_codec ", word_of(o.downlink_codec),
                   ": needs codes that add up as integers, those of the codec ternary (--grad_bits 1) or of qsgd with "
                   "sharing=max; accepted with ",
                   o.codec_name(), ": fp32, bf16");
  }
  const auto votes = [](const ChosenCodec& c) { return c.codec->traits().votes; };
  const auto voting = std::ranges::find_if(codecs, votes);
  if (o.downlink_codec == DownlinkCodec::kTernary && voting != codecs.end()) {
    TERNGRAD_THROW(UsageError, "--downlink_codec ternary: draws from sums of codes, which the votes of ", voting->given,
                   " are not; accepted with it: fp32, bf16, sums");
  }
  const auto is_sparse = [](const ChosenCodec& c) { return c.codec->traits().is_sparse; };
  if (o.downlink_codec == DownlinkCodec::kSparse && std::ranges::none_of(codecs, is_sparse)) {
    TERNGRAD_THROW(UsageError,
                   "--downlink_codec sparse: needs a sparse codec, topk or randomk; accepted with any "
                   "codec: fp32, bf16");
  }
  if (o.exchange == TrainExchange::kIntegerSum) {
    if (!any_adds_up) {
      TERNGRAD_THROW(
          UsageError,
          "--exchange integer_sum: needs codes that add up as integers: the codec ternary with --scaler_sharing max "
          "or mean and symmetric levels, or qsgd with sharing=max");
    }
    const std::string other = "an --exchange other than integer_sum, which sends packed sums of codes";
    const auto sends_lanes = [](const ChosenCodec& c) { return c.codec->traits().summable; };
    for (const ChosenCodec& codec : codecs) {
      if (codec.is_ternary() && sends_lanes(codec)) refuse_key_without_effect(codec, "format", other);
    }
  }
  if (o.downlink_codec == DownlinkCodec::kSums && o.exchange == TrainExchange::kAllGather) {
    TERNGRAD_THROW(
        UsageError,
        "--downlink_codec sums: has no effect with --exchange all_gather, where no mean travels back; accepted "
        "with it: fp32, bf16, ternary; accepted with sums: --exchange auto, scatter_reduce, integer_sum");
  }
  if (o.downlink_codec == DownlinkCodec::kSparse &&
      (o.exchange == TrainExchange::kAllGather || o.exchange == TrainExchange::kIntegerSum)) {
    TERNGRAD_THROW(UsageError, "--downlink_codec sparse: has no effect with --exchange ", word_of(o.exchange),
                   ", where no mean travels back; accepted with it: fp32, bf16; accepted with sparse: --exchange auto, "
                   "scatter_reduce");
  }
}

/// Checks topk's warm-up stages, which count from the first step.
void check_stages(const TrainOptions& o) {
  const std::vector<ChosenCodec> codecs = chosen_codecs(o);
  const auto has_stages = [](const ChosenCodec& c) { return c.spec.name == "topk" && c.value("stage_steps") != "0"; };
  const auto staged = std::ranges::find_if(codecs, has_stages);
  if (staged == codecs.end()) return;
  if (o.has_floating_steps()) {
    TERNGRAD_THROW(UsageError, staged->given, ": stage_steps counts from step 0, steps of --floating_grad_epoch and ",
                   "--compress_from too, in which nothing is compressed; accepted with it: neither");
  }
  if (o.trains && !devices_of(o).is_cpu_run() && o.chosen_strategy() != TrainStrategy::kSimple &&
      !o.exchanges_on_host()) {
    TERNGRAD_THROW(UsageError, staged->given,
                   ": stage_steps is not there for GPUs, where each step would send as many ",
                   "bytes as the first; it needs --device cpu");
  }
}

/// Refuses codecs and downlinks without GPU kernels. Ignores processes that do not train.
void check_codecs_on_gpus(const TrainOptions& o) {
  if (!o.trains || devices_of(o).is_cpu_run() || o.chosen_strategy() == TrainStrategy::kSimple) return;
  const std::vector<ChosenCodec> codecs = chosen_codecs(o);
  if (o.exchanges_on_host()) return;
  if (o.downlink_codec == DownlinkCodec::kSparse) {
    TERNGRAD_THROW(UsageError,
                   "--downlink_codec sparse has no kernels for GPUs; it needs --device cpu, or an exchange on "
                   "the host (--strategy ps with --num_servers 1 or more); accepted on GPUs: fp32, bf16, and with "
                   "codes that add up sums, "
                   "ternary");
  }
  for (const ChosenCodec& codec : codecs) {
    if (!codec.is_ternary() || codec.value("format") != "trans") continue;
    TERNGRAD_THROW(UsageError, codec.names("format") ? codec.given + ": format=trans" : "--ternary_format trans",
                   " has no kernels for GPUs; it needs --device cpu, or an exchange on the host (--strategy ps with "
                   "--num_servers 1 or more); accepted on GPUs: t2, t5, tmask");
  }
}

/// True for ternary with ScalerRule::kOriginal (c sigma) if some scaler of a tensor covers a single element.
bool has_zero_scaler(const Codec& codec, std::int64_t num_elements) {
  const auto* const ternary = dynamic_cast<const TernaryCodec*>(&codec);
  if (ternary == nullptr || ternary->options().rule != ScalerRule::kOriginal) return false;
  if (ternary->options().scope == ScalerScope::kBlock) return num_elements % ternary->options().block_elements == 1;
  return ternary->options().scope == ScalerScope::kLayer && num_elements == 1;
}

}  // namespace

void check_codec_options(const OptionSet& options, const TrainOptions& o) {
  if (options.was_set("codec") && options.was_set("grad_bits")) {
    TrainOptions of_bits = o;
    of_bits.codec = "auto";
    const std::string by_bits = of_bits.codec_spec();
    // Other keys of the spec do not contradict --grad_bits.
    const bool agree =
        o.codec == "auto" ||
        (o.codec_name() == of_bits.codec_name() &&
         (o.codec_name() != "qsgd" || chosen_codecs(o).front().value("bits") == std::to_string(o.grad_bits)));
    if (!agree) {
      TERNGRAD_THROW(UsageError, "--codec ", o.codec, ": contradicts --grad_bits ", o.grad_bits, ", which is ", by_bits,
                     "; give one of them, or values that agree");
    }
  }
  const std::vector<ChosenCodec> codecs = chosen_codecs(o);
  const SpecOptions keys = ternary_defaults(o);
  for (std::size_t i = 0; i < keys.size(); ++i) {
    check_key_option(options, codecs, kTernaryKeyOptions[i], keys[i].second);
  }
}

void check_compression_options(const OptionSet& options, const TrainOptions& o) {
  check_vendor(o);
  check_memory(options, o);
  check_unit_signs(o);
  check_scalers(o);
  check_shards(o);
  check_code_sums(o);
  check_codecs_on_gpus(o);
  check_stages(o);
}

void check_codec_plan(const TrainOptions& o, const CodecPlan& plan) {
  if (o.codec_name() == "fp32") return;  // no compression was requested
  const ChosenCodec codec = chosen_codecs(o).front();
  const std::string spec = to_string(codec.spec);
  if (std::ranges::find(plan.groups(), spec, &CodecPlan::Group::spec) != plan.groups().end()) return;
  TERNGRAD_THROW(UsageError, codec.given, ": has no effect here; no tensor of --net ", o.net, " is left to travel as ",
                 codec.named.name, " by --codec_for, --size_to_binarize and --quantize_logits");
}

std::string note_on_memory(const TrainOptions& o) {
  if (parse_memory(memory_spec(o)).kind != MemoryKind::kErrorFeedback) return "";
  for (const ChosenCodec& codec : chosen_codecs(o)) {
    if (!codec.is_ternary() || codec.value("rounding") == "nearest") continue;
    return codec.given +
           " with error feedback: codes drawn without bias can leave out more than they send, so that what workers "
           "keep grows to many times the gradient (residual_norm); rounding=nearest does not";
  }
  return "";
}

std::string note_on_scalers(const TrainOptions& o, const Layout& layout) {
  if (!uses_ternary(o)) return "";
  const CodecPlan plan(layout, codec_plan_options(o));
  std::string names;
  for (const CodecPlan::Group& group : plan.groups()) {
    for (const int index : group.segments) {
      const Segment& segment = layout.segment(index);
      if (has_zero_scaler(*group.codec, segment.num_elements)) names += (names.empty() ? "" : ", ") + segment.name;
    }
  }
  if (names.empty()) return "";
  return "--scaler original: a scaler of one element is 0, as its standard deviation is, so that element never changes "
         "in " +
         names + "; --scaler paper sends it, and so does --codec_for NAME=fp32";
}

}  // namespace terngrad
