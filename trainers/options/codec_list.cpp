#include "trainers/options/codec_list.h"

#include <fmt/format.h>

#include <memory>
#include <nlohmann/json.hpp>
#include <optional>
#include <vector>

#include "compress/plan/codec_facts.h"
#include "compress/plan/codec_registry.h"
#include "compress/plan/combinations.h"
#include "trainers/command_line/help_text.h"
#include "trainers/command_line/option_set.h"

namespace terngrad {
namespace {

/// Text of a codec's properties with default keys.
std::string facts_of(const Codec& codec) {
  const CodecTraits traits = codec.traits();
  std::string text =
      fmt::format("{:.4g} bits per element{}; ", traits.bits_per_element, traits.fixed_size ? "" : " at most");
  text += traits.sums_as_float ? "elements of workers add up as floats"
          : traits.summable    ? "codes of workers share scalers and add up as integers"
                               : "each worker's codes are decoded by themselves";
  return text + (traits.unbiased ? "; unbiased" : "; biased");
}

void append_lines(const std::string& content, int width, std::string& text) {
  for (const std::string& line : wrap(content, width - 2)) text += "  " + line + "\n";
}

HelpSection keys_of(const std::string& name) {
  HelpSection section{.caption = "  keys of " + name, .entries = {}};
  for (const SpecKey& key : codec_keys(name)) {
    section.entries.push_back({.name = "  " + key.name + "=" + key.default_value,
                               .description = key.meaning + "; accepted: " + key.accepted});
  }
  return section;
}

using Json = nlohmann::ordered_json;

Json to_json(const CodecFact& fact) { return {{"by_default", fact.by_default}, {"changed_by", fact.changed_by}}; }

Json to_json(const CodecEntry& entry) {
  const CodecFacts facts = codec_facts(entry.name);
  Json keys = Json::array();
  for (const SpecKey& key : codec_keys(entry.name)) {
    keys.push_back(
        {{"name", key.name}, {"default", key.default_value}, {"accepted", key.accepted}, {"meaning", key.meaning}});
  }
  return {{"name", entry.name},
          {"summary", entry.summary},
          {"source", entry.source},
          {"bits_per_element", facts.bits},
          {"varying_by", facts.varying_by},
          {"most_bits", facts.most_bits},
          {"unbiased", to_json(facts.unbiased)},
          {"summable", to_json(facts.summable)},
          {"sums_as_float", facts.sums_as_float},
          {"runs_on_gpus", entry.runs_on_gpus},
          {"rounds", make_codec(entry.name, {})->low_rank() ? 2 : 1},
          {"keys", keys}};
}

/// Options that not every codec goes with.
struct CombinedOption {
  const char* option;
  Combination choices;
};

constexpr CombinedOption kCombinedOptions[] = {
    {"--exchange integer_sum", {.algorithm = ExchangeAlgorithm::kIntegerSum}},
    {"--downlink_codec sums", {.downlink_codec = DownlinkCodec::kSums}},
    {"--downlink_codec ternary", {.downlink_codec = DownlinkCodec::kTernary}},
    {"--downlink_codec sparse", {.downlink_codec = DownlinkCodec::kSparse}},
    {"--codec_memory ef", {.memory = MemoryKind::kErrorFeedback}},
    {"--codec_memory momentum", {.memory = MemoryKind::kMomentum}},
    {"--codec_memory dgc", {.memory = MemoryKind::kDgc}},
    {"--codec_memory loco", {.memory = MemoryKind::kLoco}},
    {"--codec_memory ef21", {.memory = MemoryKind::kEf21}},
    {"--pull parameters", {.has_servers = true, .updates_shards = true}},
    {"--strategy async", {.is_pushed = true}}};

/// {option: reason} of a codec for all tensors, with those of kCombinedOptions that are refused.
Json refused_options(const std::string& spec) {
  const std::shared_ptr<const Codec> codec = make_codec(spec, {.num_workers = 2});
  const NamedCodec named[] = {{codec.get(), "the codec"}};
  Json refused = Json::object();
  for (const CombinedOption& each : kCombinedOptions) {
    if (const std::optional<Refusal> refusal = find_refusal(named, each.choices))
      refused[each.option] = refusal->reason;
  }
  return refused;
}

/// For each codec with its defaults, and for those of its variants that go with other options.
Json combinations() {
  Json list = {{"options", Json::array()}, {"codecs", Json::array()}};
  for (const CombinedOption& each : kCombinedOptions) list["options"].push_back(each.option);
  for (const CodecEntry& entry : codec_entries()) {
    const Json by_default = refused_options(entry.name);
    for (const std::string& spec : codec_variants(entry.name)) {
      const Json refused = refused_options(spec);
      if (spec == entry.name || refused != by_default) list["codecs"].push_back({{"spec", spec}, {"refused", refused}});
    }
  }
  return list;
}

}  // namespace

std::string codec_list_json(std::span<const CodecPreset> presets) {
  Json list = {{"codecs", Json::array()}, {"presets", Json::array()}};
  for (const CodecEntry& entry : codec_entries()) list["codecs"].push_back(to_json(entry));
  for (const CodecPreset& preset : presets) {
    list["presets"].push_back(
        {{"name", preset.name}, {"summary", preset.summary}, {"spec", preset.spec}, {"memory", preset.memory}});
  }
  list["combinations"] = combinations();
  return list.dump(2) + "\n";
}

std::string codec_list_text(int width, std::span<const CodecPreset> presets) {
  std::string text;
  for (const std::string& line :
       wrap("Codecs, by a spec NAME or NAME:KEY=VALUE,KEY=VALUE, such as ternary:clip_factor=2.5,format=t5. Values are "
            "defaults.",
            width)) {
    text += line + "\n";
  }
  for (const CodecEntry& entry : codec_entries()) {
    text += fmt::format("\n{}\n", entry.name);
    append_lines(entry.summary, width, text);
    if (entry.source[0] != '\0') append_lines(fmt::format("from {}", entry.source), width, text);
    append_lines(facts_of(*make_codec(entry.name, {})), width, text);
    const HelpSection keys = keys_of(entry.name);
    if (!keys.entries.empty()) text += format_help({keys}, width);
  }
  if (presets.empty()) return text;
  HelpSection section{.caption = "Presets", .entries = {}};
  for (const CodecPreset& preset : presets) {
    const std::string memory = preset.memory[0] == '\0' ? "" : fmt::format(" with memory {}", preset.memory);
    section.entries.push_back(
        {.name = preset.name, .description = fmt::format("{}{}: {}", preset.spec, memory, preset.summary)});
  }
  return text + format_help({section}, width);
}

void declare_codec_list(OptionSet& options) {
  options.add_question("list_codecs", "print the codecs with their keys and defaults, and exit",
                       [](int width) { return codec_list_text(width); });
  options.add_question("list_codecs_json", "print the same for programs, and exit",
                       [](int) { return codec_list_json(); });
}

}  // namespace terngrad
