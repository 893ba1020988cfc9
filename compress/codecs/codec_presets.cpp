#include "compress/codecs/codec_presets.h"

#include <algorithm>
#include <array>

namespace terngrad {
namespace {

// One entry for each preset. Only those whose codec and memory there are: none so far.
constexpr std::array<CodecPreset, 0> kPresets = {};

}  // namespace

std::span<const CodecPreset> codec_presets() { return kPresets; }

ExpandedSpec expand_preset(const CodecSpec& spec, std::span<const CodecPreset> presets) {
  const auto preset = std::ranges::find_if(presets, [&](const CodecPreset& each) { return spec.name == each.name; });
  if (preset == presets.end()) return {.spec = spec};
  ExpandedSpec expanded{.spec = parse_codec_spec(preset->spec), .memory = preset->memory};
  for (const auto& [key, value] : spec.options) {
    const auto own = std::ranges::find(expanded.spec.options, key, &SpecOptions::value_type::first);
    if (own != expanded.spec.options.end()) {
      own->second = value;
    } else {
      expanded.spec.options.emplace_back(key, value);
    }
  }
  return expanded;
}

}  // namespace terngrad
