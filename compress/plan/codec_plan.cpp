#include "compress/plan/codec_plan.h"

#include <fnmatch.h>

#include <algorithm>
#include <map>
#include <set>

#include "compress/plan/codec_presets.h"
#include "kernels/runtime/errors.h"

namespace terngrad {
namespace {

std::string codec_for(const Segment& segment, const CodecPlanOptions& options, std::vector<bool>& rule_used) {
  for (std::size_t i = 0; i < options.rules.size(); ++i) {
    if (matches_pattern(options.rules[i].pattern, segment.name)) {
      rule_used[i] = true;
      return options.rules[i].codec;
    }
  }
  if (segment.num_elements < options.size_to_binarize) return "fp32";
  if (segment.is_logits && !options.quantize_logits) return "fp32";
  return options.codec;
}

/// Codec of tensors for which Codec::takes is false.
const std::string kUntaken = "fp32";

/// CodecTraits::columns of a tensor.
std::int64_t columns_of(const Segment& segment) { return segment.shape.size() > 1 ? segment.shape.back() : 0; }

/// Names of the tensors; for a large model only the first ones.
std::string names_of(const Layout& layout) {
  constexpr int kMostNames = 50;
  std::string names;
  for (int index = 0; index < std::min(layout.num_segments(), kMostNames); ++index) {
    names += (index == 0 ? "" : ", ") + layout.segment(index).name;
  }
  if (layout.num_segments() <= kMostNames) return names;
  return names + " and " + std::to_string(layout.num_segments() - kMostNames) + " more";
}

}  // namespace

CodecPlanOptions with_workers(CodecPlanOptions options, int num_workers) {
  options.context.num_workers = num_workers;
  return options;
}

CodecRule parse_codec_rule(const std::string& text) {
  const std::size_t equals = text.find('=');
  TERNGRAD_REQUIRE(equals != std::string::npos && equals > 0 && equals + 1 < text.size(), "[codec_for] '", text,
                   "' is not PATTERN=SPEC, for example conv*/weights=ternary:clip_factor=2.5");
  return {text.substr(0, equals), text.substr(equals + 1)};
}

bool matches_pattern(const std::string& pattern, const std::string& name) {
  // fnmatch treats brackets as a set of characters; they are common in names (layers[0]/weights), so they are escaped.
  std::string escaped;
  for (const char character : pattern) {
    if (character == '[' || character == '\\') escaped += '\\';
    escaped += character;
  }
  return fnmatch(escaped.c_str(), name.c_str(), 0) == 0;
}

template <class MakeCodec>
void CodecPlan::add(const Segment& segment, const std::string& spec, const MakeCodec& make, Fingerprint& hash) {
  const int index = static_cast<int>(group_of_.size());
  const auto serves = [&](const Group& each) {
    const std::int64_t columns = each.codec->traits().columns;
    return each.spec == spec && (columns == CodecTraits::kAnyColumns || columns == columns_of(segment));
  };
  auto group = std::ranges::find_if(groups_, serves);
  if (group == groups_.end()) group = groups_.insert(group, Group{spec, make(), {}});
  const Codec& codec = *group->codec;
  group->segments.push_back(index);
  group_of_.push_back(static_cast<int>(group - groups_.begin()));
  first_scaler_.push_back(first_scaler_.back() + codec.num_scalers(segment.num_elements));
  hash.add(codec.name()).add(codec.options_text());
}

namespace {

/// A memory is for all tensors, so a rule for some tensors must not name a preset that needs one.
void require_no_memory(const CodecRule& rule) {
  const ExpandedSpec expanded = expand_preset(parse_codec_spec(rule.codec), codec_presets());
  TERNGRAD_REQUIRE(expanded.memory.empty() || expanded.memory == "none", "[codec] rule ", rule.pattern, "=", rule.codec,
                   ": a preset whose workers keep something (", expanded.memory,
                   ") is for all tensors; give the codec ", to_string(expanded.spec),
                   " to these, and the memory to all");
}

}  // namespace

CodecPlan::CodecPlan(const Layout& layout, const CodecPlanOptions& options) {
  std::vector<bool> rule_used(options.rules.size(), false);
  for (const CodecRule& rule : options.rules) require_no_memory(rule);
  first_scaler_.push_back(0);
  Fingerprint hash;
  hash.add(layout.fingerprint());
  std::map<std::string, std::string> canonical;  // by the text in the options
  for (const Segment& segment : layout.segments()) {
    const auto [entry, is_new] = canonical.try_emplace(codec_for(segment, options, rule_used));
    std::string& spec = entry->second;
    if (is_new) spec = to_string(canonical_codec_spec(entry->first));
    CodecContext context = options.context;
    context.columns = columns_of(segment);
    std::shared_ptr<const Codec> codec = make_codec(spec, context);
    const bool is_taken = codec->takes(segment.num_elements);
    if (!is_taken) codec = make_codec(kUntaken, context);
    add(
        segment, is_taken ? spec : kUntaken, [&] { return codec; }, hash);
  }
  // Also checks specs that are used for no tensor.
  make_codec(options.codec, options.context);
  for (std::size_t i = 0; i < options.rules.size(); ++i) {
    TERNGRAD_REQUIRE(rule_used[i], "[codec_for] pattern '", options.rules[i].pattern,
                     "' decides for no tensor: none has such a name, or an earlier rule matches them all; tensors are ",
                     names_of(layout));
    make_codec(options.rules[i].codec, options.context);
  }
  fingerprint_ = hash.value();
}

CodecPlan CodecPlan::with_codec(const Layout& layout, std::shared_ptr<const Codec> codec) {
  TERNGRAD_REQUIRE(codec->traits().columns == CodecTraits::kAnyColumns, "[CodecPlan] codec ", codec->name(),
                   " is made for tensors of ", codec->traits().columns, " columns, a plan for tensors of any shape");
  CodecPlan plan;
  plan.first_scaler_.push_back(0);
  Fingerprint hash;
  hash.add(layout.fingerprint());
  for (const Segment& segment : layout.segments()) {
    plan.add(
        segment, codec->name(), [&] { return codec; }, hash);
  }
  plan.fingerprint_ = hash.value();
  return plan;
}

CodecPlan::CodecPlan(const CodecPlan& whole, const Layout& selection, std::span<const int> segments) {
  TERNGRAD_REQUIRE(static_cast<int>(segments.size()) == selection.num_segments(), "[CodecPlan] ", segments.size(),
                   " tensors are selected, the layout has ", selection.num_segments());
  first_scaler_.push_back(0);
  Fingerprint hash;
  hash.add(selection.fingerprint());
  for (int index = 0; index < selection.num_segments(); ++index) {
    const int group_of_whole = whole.group_of(segments[static_cast<std::size_t>(index)]);
    const Group& group = whole.groups_[static_cast<std::size_t>(group_of_whole)];
    add(
        selection.segment(index), group.spec, [&] { return group.codec; }, hash);
  }
  fingerprint_ = hash.value();
}

std::vector<std::uint64_t> CodecPlan::stages() const {
  std::set<std::uint64_t> first = {0};
  for (const Group& group : groups_) {
    for (const std::uint64_t step : group.codec->stages()) first.insert(step);
  }
  return {first.begin(), first.end()};
}

CodecPlan CodecPlan::at_step(std::uint64_t step) const {
  CodecPlan plan = *this;
  Fingerprint hash;
  hash.add(fingerprint_);
  for (Group& group : plan.groups_) {
    if (const auto codec = group.codec->at_step(step)) group.codec = codec;
    hash.add(group.codec->options_text());
  }
  plan.fingerprint_ = hash.value();
  return plan;
}

CodecPlan CodecPlan::with_factors(const CodecPlan& whole, const Layout& layout, int num_workers) {
  TERNGRAD_REQUIRE(layout.num_segments() == static_cast<int>(whole.group_of_.size()), "[CodecPlan] a plan of ",
                   whole.group_of_.size(), " tensors, the layout has ", layout.num_segments());
  CodecPlan plan;
  plan.first_scaler_.push_back(0);
  Fingerprint hash;
  hash.add(layout.fingerprint()).add(whole.fingerprint());
  for (int index = 0; index < layout.num_segments(); ++index) {
    const Group& group = whole.groups_[static_cast<std::size_t>(whole.group_of(index))];
    const std::optional<LowRankForm> form = group.codec->low_rank();
    const std::string spec = form ? element_type_name(form->factors) : group.spec;
    const auto make = [&]() -> std::shared_ptr<const Codec> {
      return form ? make_codec(spec, {.num_workers = num_workers}) : group.codec;
    };
    plan.add(layout.segment(index), spec, make, hash);
  }
  plan.fingerprint_ = hash.value();
  return plan;
}

}  // namespace terngrad
