#include "trainers/options/compression_option_checks.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "compress/codecs/ternary_codec.h"
#include "compress/exchange/vendor_codecs.h"
#include "compress/memory/memory_options.h"
#include "compress/plan/codec_plan.h"
#include "compress/plan/codec_registry.h"
#include "compress/plan/combinations.h"
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
}

/// The memory as the command line names it.
std::string given_memory(const TrainOptions& o) {
  if (o.codec_memory != "auto") return "--codec_memory " + o.codec_memory;
  if (o.error_feedback == ErrorFeedback::kTrue) return "--error_feedback true";
  const MemoryKind kind = parse_memory(memory_spec(o)).kind;
  return "the memory " + word_of(kind) + " of " + chosen_codecs(o).front().given;
}

/// Checks the workers' memory against other options than those of the exchange.
void check_memory(const OptionSet& options, const TrainOptions& o) {
  const MemoryOptions memory = parse_memory(memory_spec(o));
  if (options.was_set("error_feedback_decay") && memory.kind == MemoryKind::kErrorFeedback &&
      memory.decay != o.error_feedback_decay) {
    TERNGRAD_THROW(UsageError, "--error_feedback_decay ", o.error_feedback_decay, ": contradicts ", given_memory(o),
                   "; give one of them, or values that agree");
  }
  if (o.sends_directions() && memory.kind == MemoryKind::kMomentum) {
    TERNGRAD_THROW(UsageError, given_memory(o), ": averages a second time what --optimizer ", o.optimizer,
                   " has averaged already; accepted with it: none, ef, loco, ef21");
  }
  if (memory.kind != MemoryKind::kDgc) return;
  if (o.optimizer != "gd") {
    TERNGRAD_THROW(UsageError, given_memory(o), ": has the momentum in itself, and --optimizer ", o.optimizer,
                   " would count it twice or rescale it; accepted with it: --optimizer gd");
  }
  if (o.has_floating_steps()) {
    TERNGRAD_THROW(UsageError, given_memory(o), ": has the momentum in itself, and rests in steps of ",
                   "--floating_grad_epoch and --compress_from; accepted with it: neither, or the warm-up of topk "
                   "(stage_steps)");
  }
}

/// Checks optimizers whose workers send Adam's directions, which take the momentum and variance of all workers.
void check_directions(const TrainOptions& o) {
  if (!o.sends_directions()) return;
  const auto refuse = [&](const std::string& why, const std::string& accepted) {
    TERNGRAD_THROW(UsageError, "--optimizer ", o.optimizer, ": ", why, "; accepted", accepted);
  };
  if (!compresses(o) || !o.encodes_gradients()) {
    refuse("sends directions in steps that compress, and none does here",
           " with --codec " + o.codec_name() + ": adam, which it would be");
  }
  if (is_async(o) || o.pulls_parameters()) {
    refuse("needs momentum and variance in every worker, and servers keep them here",
           " with it: --strategy replicated, or ps with --pull gradient");
  }
  if (o.reduce == Reduce::kSum)
    refuse("momenta would be multiplied by --num_nodes in every step", " with it: --reduce average");
  if (o.optimizer == "onebit_adam" && o.compress_from == 0) {
    refuse("divides by a variance that its first steps measure, in fp32",
           " with it: --compress_from 1 or more, their number");
  }
  if (o.freeze_until > 0 && o.freeze_until >= o.compress_from) {
    refuse("would never move tensors that are frozen in all steps that measure its variance",
           " with it: --freeze_until 0 (for good), or below --compress_from");
  }
  if (o.on_nonfinite == OnNonfinite::kZero) {
    refuse("would lose the momentum of a worker too, not its gradient alone, by --on_nonfinite zero",
           " with it: stop, skip; --nan_to_zero takes such elements for 0 before");
  }
  // The differences do not overflow, as compress_from is below max_steps.
  if (o.optimizer == "zero_one_adam" && o.max_steps > 0 &&
      o.max_steps - o.compress_from - 1 <= o.variance_update_scaler) {
    refuse("exchanges fp32 in " + std::to_string(o.variance_update_scaler) +
               " steps (--variance_update_scaler) and one more from --compress_from " +
               std::to_string(o.compress_from) + " on, and --max_steps " + std::to_string(o.max_steps) +
               " are over by then",
           ": adam, a smaller --variance_update_scaler or --compress_from, more steps");
  }
}

/// True if GPUs encode and exchange gradients.
bool exchanges_on_gpus(const TrainOptions& o) {
  return o.trains && !devices_of(o).is_cpu_run() && o.chosen_strategy() != TrainStrategy::kSimple &&
         !o.exchanges_on_host();
}

/// The refused choice as the command line names it.
std::string given_choice(RefusedChoice choice, const TrainOptions& o) {
  switch (choice) {
    case RefusedChoice::kDownlinkCodec:
      return "--downlink_codec " + word_of(o.downlink_codec);
    case RefusedChoice::kMemory:
      return given_memory(o);
    case RefusedChoice::kOnNonfinite:
      return "--on_nonfinite " + word_of(o.on_nonfinite);
    case RefusedChoice::kUpdate:
      return "--pull parameters";
    case RefusedChoice::kGroups:
      return "--workers_per_group " + std::to_string(o.workers_per_group);
    case RefusedChoice::kPush:
      return "--strategy async";
    default:
      return "--exchange " + word_of(o.exchange);
  }
}

/// Checks what the exchange refuses to combine.
void check_combination(const TrainOptions& o) {
  const std::vector<ChosenCodec> chosen = chosen_codecs(o);
  std::vector<NamedCodec> codecs;
  for (const ChosenCodec& codec : chosen) {
    const bool by_option = codec.is_ternary() && !codec.names("sharing") && o.scaler_sharing == "none";
    codecs.push_back({codec.codec.get(), codec.given + (by_option ? " with --scaler_sharing none" : "")});
  }
  const Combination choices{.algorithm = algorithm_of(o).value_or(ExchangeAlgorithm::kAuto),
                            .downlink_codec = o.downlink_codec,
                            .memory = parse_memory(memory_spec(o)).kind,
                            .on_nonfinite = o.on_nonfinite,
                            .is_vendor = o.exchange == TrainExchange::kVendor,
                            .has_servers = o.chosen_strategy() == TrainStrategy::kParameterServers,
                            .updates_shards = o.pulls_parameters(),
                            .has_groups = o.workers_per_group > 1,
                            .is_pushed = is_async(o),
                            .is_on_gpus = exchanges_on_gpus(o)};
  const std::optional<Refusal> refusal = find_refusal(codecs, choices);
  if (refusal) TERNGRAD_THROW(UsageError, given_choice(refusal->choice, o), ": ", refusal->reason);
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
      "without --floating_grad_epoch, --compress_from and --optimizer zero_one_adam), or scale=l1");
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

/// Refuses options about sums of codes that have no effect.
void check_code_sums(const TrainOptions& o) {
  const std::vector<ChosenCodec> codecs = chosen_codecs(o);
  const auto adds_up = [](const ChosenCodec& c) { return c.codec->traits().summable; };
  if (o.exchange == TrainExchange::kIntegerSum) {
    const std::string other = "an --exchange other than integer_sum, which sends packed sums of codes";
    for (const ChosenCodec& codec : codecs) {
      if (codec.is_ternary() && adds_up(codec)) refuse_key_without_effect(codec, "format", other);
    }
  }
  if (o.downlink_codec == DownlinkCodec::kSums && o.exchange == TrainExchange::kAllGather) {
    TERNGRAD_THROW(
        UsageError,
        "--downlink_codec sums: has no effect with --exchange all_gather, where no mean travels back; accepted "
        "with it: fp32, bf16, ternary; accepted with sums: --exchange auto, scatter_reduce, integer_sum");
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
                   "--compress_from and of zero_one_adam's variance too, in which nothing is compressed; accepted with "
                   "it: none of them");
  }
}

/// Refuses codecs without GPU kernels.
void check_codecs_on_gpus(const TrainOptions& o) {
  if (!exchanges_on_gpus(o)) return;
  const std::vector<ChosenCodec> codecs = chosen_codecs(o);
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
  check_combination(o);
  check_memory(options, o);
  check_directions(o);
  check_unit_signs(o);
  check_scalers(o);
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
