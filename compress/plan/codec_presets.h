// Presets: names for a codec, its options and a worker memory, as publications combine them.
#pragma once

#include <span>
#include <string>

#include "compress/codec/codec_spec.h"

namespace terngrad {

/// A named combination of codec spec and worker memory.
struct CodecPreset {
  const char* name;     // different from all codec names
  const char* summary;  // source, in one line
  const char* spec;     // codec spec
  const char* memory;   // spec of the worker memory, "none" for no memory; empty: the codec's default
};

/// All presets, in a fixed order.
std::span<const CodecPreset> codec_presets();

/// Expansion of a spec that may name a preset.
struct ExpandedSpec {
  CodecSpec spec;           // codec spec
  std::string memory = {};  // as CodecPreset::memory; empty if the spec names no preset
};

/// Replaces a preset's name by its codec spec; options in `spec` override the preset's.
/// @param presets  presets to search; a spec that names none of them is returned unchanged
ExpandedSpec expand_preset(const CodecSpec& spec, std::span<const CodecPreset> presets);

}  // namespace terngrad
