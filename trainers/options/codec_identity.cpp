#include "trainers/options/codec_identity.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <optional>
#include <sstream>
#include <vector>

#include "compress/codecs/ternary_codec.h"
#include "compress/plan/codec_plan.h"
#include "compress/plan/codec_registry.h"
#include "kernels/runtime/errors.h"
#include "trainers/options/codec_choice.h"
#include "trainers/options/train_options.h"

namespace terngrad {
namespace {

/// The options with long names of ternary's keys, as they stand for the codec of tensors that no rule names if that is
/// ternary, however its options were given.
TrainOptions with_keys_of_spec(TrainOptions o) {
  if (o.codec_name() != "ternary") return o;
  const ChosenCodec codec = chosen_codecs(o).front();
  const TernaryOptions& made = dynamic_cast<const TernaryCodec&>(*codec.codec).options();
  o.clip_factor = made.clip_factor;
  o.block_size = made.block_elements;
  o.scaler = codec.value("scaler");
  o.scaler_sharing = codec.value("sharing");
  o.clip_scope = codec.value("clip_scope");
  o.scaler_scope = codec.value("scope");
  o.ternary_format = codec.value("format");
  return o;
}

/// With all keys and their values; nothing for what is no spec.
std::optional<CodecSpec> canonical_spec(const std::string& text) {
  try {
    return canonical_codec_spec(text);
  } catch (const InvalidArgument&) {
    return std::nullopt;
  }
}

/// The rules of a list PATTERN=SPEC,PATTERN=SPEC. Specs have commas too: what names a codec behind its first '='
/// begins a rule, all else is a key of the rule before. Nothing for a text that does not begin with a rule.
std::optional<std::vector<CodecRule>> listed_rules(const std::string& text) {
  std::vector<CodecRule> rules;
  std::istringstream items(text);
  for (std::string item; std::getline(items, item, ',');) {
    const std::size_t equals = item.find('=');
    const std::string spec = equals == std::string::npos ? "" : item.substr(equals + 1);
    if (canonical_spec(spec.substr(0, spec.find(':'))).has_value()) {
      rules.push_back({item.substr(0, equals), spec});
    } else if (rules.empty()) {
      return std::nullopt;
    } else {
      rules.back().codec += "," + item;
    }
  }
  return rules;
}

}  // namespace

std::string codec_identity(const TrainOptions& o) {
  return o.codec_name() == "fp16" ? "fp16" : to_string(chosen_codecs(o).front().spec);
}

std::string codec_rules_identity(const TrainOptions& o) {
  std::vector<std::string> rules;
  for (const std::string& text : o.codec_for) {
    const CodecRule rule = parse_codec_rule(text);
    const bool is_name = parse_codec_spec(rule.codec).options.empty();
    rules.push_back(is_name ? text : rule.pattern + "=" + to_string(canonical_codec_spec(rule.codec)));
  }
  return fmt::format("{}", fmt::join(rules, ","));
}

std::string ternary_key_identity(const TrainOptions& o, std::string_view key) {
  const SpecOptions values = ternary_defaults(with_keys_of_spec(o));
  return std::ranges::find(values, key, &SpecOptions::value_type::first)->second;
}

bool is_same_codec(const std::string& ours, const std::string& recorded) {
  const std::optional<CodecSpec> canonical = canonical_spec(ours);
  return canonical.has_value() && canonical == canonical_spec(recorded);
}

bool are_same_rules(const std::string& ours, const std::string& recorded) {
  const auto is_same = [](const CodecRule& a, const CodecRule& b) {
    const auto has_keys = [](const CodecRule& rule) { return rule.codec.find(':') != std::string::npos; };
    return a.pattern == b.pattern && has_keys(a) == has_keys(b) && is_same_codec(a.codec, b.codec);
  };
  const auto our_rules = listed_rules(ours);
  const auto recorded_rules = listed_rules(recorded);
  return our_rules.has_value() && recorded_rules.has_value() &&
         std::ranges::equal(*our_rules, *recorded_rules, is_same);
}

}  // namespace terngrad
