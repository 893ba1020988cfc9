#include "trainers/options/codec_list.h"

#include <fmt/format.h>

#include <vector>

#include "compress/codecs/codec_registry.h"
#include "trainers/options/help_text.h"
#include "trainers/options/option_set.h"

namespace terngrad {
namespace {

/// What a codec of the registry is with its defaults.
std::string facts_of(const Codec& codec) {
  const CodecTraits traits = codec.traits();
  std::string text =
      fmt::format("{} bits per element{}; ", traits.bits_per_element, traits.fixed_size ? "" : " at most");
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

}  // namespace

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
}

}  // namespace terngrad
