// Presets: names for a codec, its options and what workers keep from step to step, as publications combine them.
#pragma once

#include <span>
#include <string>

#include "compress/codec/codec_spec.h"

namespace terngrad {

struct CodecPreset {
  const char* name;     // no codec's
  const char* summary;  // where it is from, in one line
  const char* spec;     // of a codec
  const char* memory;   // what workers keep, "none" if nothing; empty: what the codec has by default
};

/// All presets, in a fixed order.
std::span<const CodecPreset> codec_presets();

/// What a spec that may name a preset stands for.
struct ExpandedSpec {
  CodecSpec spec;           // of a codec
  std::string memory = {};  // as CodecPreset::memory; empty for a spec that names no preset
};

/// Puts in place of a preset's name what it stands for; options that `spec` gives count more than the preset's.
/// @param presets  those to look in; a spec that names none of them is left as it is
ExpandedSpec expand_preset(const CodecSpec& spec, std::span<const CodecPreset> presets);

}  // namespace terngrad
