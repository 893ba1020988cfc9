#include "trainers/checkpoint/run_identity.h"

#include <algorithm>
#include <array>
#include <optional>
#include <sstream>
#include <vector>

#include "compress/plan/codec_plan.h"
#include "compress/plan/codec_registry.h"
#include "kernels/runtime/errors.h"
#include "trainers/checkpoint/checkpoint.h"

namespace terngrad {
namespace {

constexpr const char* kNone = "(none)";

std::string value_of(const RunIdentity& identity, const std::string& key) {
  const auto entry = identity.find(key);
  return entry == identity.end() ? kNone : entry->second;
}

std::string described(const std::string& key) {
  if (key == "codec") return "--grad_bits or --codec";
  if (key == "codec_spec") return "--codec";
  if (key == "num_workers") return "--num_nodes";
  if (key == "return_codec") return "--downlink_codec";  // as checkpoints have called it from the first on
  if (key == "num_examples") return "other training data (--data_dir): num_examples";
  if (key == "data_fingerprint") return "other training data (--data_dir): data_fingerprint";
  if (key == "exchange_fingerprint") return "another net or exchange: exchange_fingerprint";
  return "--" + key;
}

/// A value in the words of the options that it stands for.
std::string in_words(const std::string& key, const std::string& value) {
  if (key == "strategy" && value == kSynchronousStrategies) return "simple, replicated or ps";
  if (key == "pull" && value == "any") return "gradient, or parameters as fp32";
  if (key == "pull" && value == "rounded parameters") return "parameters as bf16";
  return value;
}

std::string advice(const std::string& key, const std::string& recorded) {
  if (key == "strategy" && recorded == "async") return "; to continue the run, give --strategy async";
  if (key == "pull" && recorded != kNone && recorded != "any") {
    return "; to continue the run, give --strategy ps --pull parameters and its --downlink_codec";
  }
  if (key == "pull" && recorded == "any")
    return "; to continue the run, give --pull gradient, or --downlink_codec fp32";
  if (key == "strategy" && recorded == kSynchronousStrategies) return "; to continue the run, give one of these";
  if (key != "threads_per_worker" || recorded == kNone) return "";
  return "; to continue the run, give --threads_per_worker " + recorded + " (and --threads " + recorded + " or more)";
}

// Differences are reported by rank: the coarse ones first, fingerprints last.
int rank_of(const std::string& key) {
  constexpr std::array<std::string_view, 6> kFirst = {"net", "dataset", "optimizer", "num_workers", "seed", "strategy"};
  // What a spec says is told by the long names of its keys, where they have some.
  if (key == "codec_spec") return static_cast<int>(kFirst.size()) + 1;
  if (key.ends_with("fingerprint")) return static_cast<int>(kFirst.size()) + 2;
  return static_cast<int>(std::ranges::find(kFirst, key) - kFirst.begin());
}

/// Whether all runs had this before there was another value, and so no entry.
bool is_of_all_before(std::string_view key, std::string_view value) {
  return (key == "strategy" && value == kSynchronousStrategies) || (key == "pull" && value == "any") ||
         (key == "exchange" && value == "any but vendor") || (key == "reduce" && value == "average") ||
         (key == "codec_memory" && value == "none") || (key == "compress_from" && value == "0");
}

/// With all keys and their values; nothing for what is no spec.
std::optional<CodecSpec> canonical_spec(const std::string& text) {
  try {
    return canonical_codec_spec(text);
  } catch (const InvalidArgument&) {
    return std::nullopt;
  }
}

/// Whether a recorded spec is of the same codec: one of an earlier program lacks keys that codecs have got since, which
/// stand for what it did.
bool is_same_codec(const std::string& ours, const std::string& theirs) {
  const std::optional<CodecSpec> canonical = canonical_spec(ours);
  return canonical.has_value() && canonical == canonical_spec(theirs);
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

/// is_same_codec of every rule. A name alone takes what the long names of options say, so it is the same as no other
/// text.
bool are_same_rules(const std::string& ours, const std::string& theirs) {
  const auto is_same = [](const CodecRule& a, const CodecRule& b) {
    const auto has_keys = [](const CodecRule& rule) { return rule.codec.find(':') != std::string::npos; };
    return a.pattern == b.pattern && has_keys(a) == has_keys(b) && is_same_codec(a.codec, b.codec);
  };
  const auto our_rules = listed_rules(ours);
  const auto their_rules = listed_rules(theirs);
  return our_rules.has_value() && their_rules.has_value() && std::ranges::equal(*our_rules, *their_rules, is_same);
}

std::vector<std::string> compared_keys(const RunIdentity& expected) {
  std::vector<std::string> keys;
  for (const auto& [key, value] : expected) {
    if (key != "max_steps") keys.push_back(key);
  }
  std::ranges::stable_sort(keys, {}, rank_of);
  return keys;
}

}  // namespace

RunIdentity identity_of(const CheckpointState& state) {
  RunIdentity identity = state.extra_metadata;
  identity["net"] = state.net;
  identity["dataset"] = state.dataset;
  identity["optimizer"] = state.optimizer;
  identity["num_workers"] = std::to_string(state.num_workers);
  identity["seed"] = std::to_string(state.seed);
  return identity;
}

void check_same_run(const RunIdentity& expected, const RunIdentity& recorded, std::string_view source) {
  for (const std::string& key : compared_keys(expected)) {
    const std::string ours = value_of(expected, key);
    const std::string theirs = value_of(recorded, key);
    if (ours == theirs || (key == "on_nonfinite" && theirs == "stop")) continue;
    if (theirs == kNone && is_of_all_before(key, ours)) continue;
    // Runs before there were specs have all of it under the names of options.
    if (key == "codec_spec" && (theirs == kNone || is_same_codec(ours, theirs))) continue;
    if (key == "codec_for" && theirs != kNone && are_same_rules(ours, theirs)) continue;
    // Of runs on CPUs and on GPUs only. A run may continue on the other kind.
    if ((key == "threads_per_worker" || key == "math") && theirs == kNone) continue;
    TERNGRAD_THROW(UsageError, "cannot continue from ", source, ": this run has ", described(key), " '",
                   in_words(key, ours), "', there it is '", in_words(key, theirs), "'", advice(key, theirs));
  }
}

std::string check_max_steps(const RunIdentity& recorded, std::int64_t max_steps, bool is_given) {
  const auto entry = recorded.find("max_steps");
  if (entry == recorded.end() || entry->second == std::to_string(max_steps)) return "";
  if (!is_given) {
    TERNGRAD_THROW(UsageError, "--max_steps: the run had ", entry->second, "; give it again, or another number");
  }
  return "--max_steps was " + entry->second + " and is " + std::to_string(max_steps) +
         " now: the learning-rate schedule goes by the new number";
}

}  // namespace terngrad
