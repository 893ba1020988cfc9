#include "trainers/options/chosen_codecs.h"

#include <fmt/format.h>

#include <algorithm>
#include <utility>

#include "compress/plan/codec_presets.h"
#include "compress/plan/codec_registry.h"
#include "kernels/runtime/errors.h"
#include "trainers/options/train_options.h"

namespace terngrad {
namespace {

/// @param given  the option that names the codec, for messages
ChosenCodec choose_codec(const TrainOptions& o, std::string given, const std::string& spec) {
  ChosenCodec chosen{.given = std::move(given), .named = {}, .memory = {}, .spec = {}, .codec = {}};
  const ExpandedSpec expanded = expand_preset(parse_codec_spec(spec), codec_presets());
  chosen.named = expanded.spec;
  chosen.memory = expanded.memory;
  chosen.spec = canonical_codec_spec(spec, chosen.named.name == "ternary" ? ternary_defaults(o) : SpecOptions{});
  chosen.codec = make_codec(to_string(chosen.spec), {.num_workers = o.num_nodes});
  return chosen;
}

std::string codec_given(const TrainOptions& o) {
  return o.codec == "auto" ? "--grad_bits " + std::to_string(o.grad_bits) : "--codec " + o.codec;
}

/// The codec of --codec or --grad_bits, which must not be fp16.
ChosenCodec choose_codec(const TrainOptions& o) {
  try {
    return choose_codec(o, codec_given(o), o.codec_spec());
  } catch (const InvalidArgument& error) {
    TERNGRAD_THROW(UsageError, codec_given(o), ": ", error.what());
  }
}

std::pair<std::string, ChosenCodec> choose_rule(const TrainOptions& o, const std::string& text) {
  const std::string given = "--codec_for " + text;
  try {
    const CodecRule rule = parse_codec_rule(text);
    return {rule.pattern, choose_codec(o, given, rule.codec)};
  } catch (const InvalidArgument& error) {
    TERNGRAD_THROW(UsageError, given, ": ", error.what());
  }
}

const std::string* find_value(const CodecSpec& spec, std::string_view key) {
  const auto found = std::ranges::find(spec.options, key, &SpecOptions::value_type::first);
  return found == spec.options.end() ? nullptr : &found->second;
}

}  // namespace

SpecOptions ternary_defaults(const TrainOptions& o) {
  const std::array<std::string, kTernaryKeyOptions.size()> values = {
      fmt::format("{}", o.clip_factor), o.scaler,        o.scaler_sharing, o.clip_scope, o.scaler_scope,
      std::to_string(o.block_size),     o.ternary_format};
  SpecOptions defaults;
  for (std::size_t i = 0; i < values.size(); ++i) defaults.emplace_back(kTernaryKeyOptions[i].key, values[i]);
  return defaults;
}

bool ChosenCodec::names(std::string_view key) const { return find_value(named, key) != nullptr; }

std::string ChosenCodec::value(std::string_view key) const {
  const std::string* value = find_value(spec, key);
  return value == nullptr ? "" : *value;
}

std::vector<ChosenCodec> chosen_codecs(const TrainOptions& o) {
  std::vector<ChosenCodec> chosen;
  if (o.codec != "fp16") chosen.push_back(choose_codec(o));
  for (const std::string& rule : o.codec_for) chosen.push_back(choose_rule(o, rule).second);
  return chosen;
}

std::string codec_identity(const TrainOptions& o) {
  return o.codec_name() == "fp16" ? "fp16" : to_string(choose_codec(o).spec);
}

std::string codec_rules_identity(const TrainOptions& o) {
  std::string rules;
  for (const std::string& text : o.codec_for) {
    const auto [pattern, chosen] = choose_rule(o, text);
    rules += (rules.empty() ? "" : ",") + pattern + "=" + to_string(chosen.spec);
  }
  return rules;
}

CodecPlanOptions codec_plan_options(const TrainOptions& o) {
  CodecPlanOptions result;
  result.codec = to_string(choose_codec(o).spec);
  for (const std::string& text : o.codec_for) {
    const auto [pattern, chosen] = choose_rule(o, text);
    result.rules.push_back({pattern, to_string(chosen.spec)});
  }
  result.size_to_binarize = o.size_to_binarize;
  result.quantize_logits = o.quantize_logits;
  return result;
}

}  // namespace terngrad
