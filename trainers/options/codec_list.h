// The output of --list_codecs and --list_codecs_json.
#pragma once

#include <span>
#include <string>

#include "compress/plan/codec_presets.h"

namespace terngrad {

class OptionSet;

/// Lists every registered codec with source, bits per element, the way in which workers' messages combine, and its keys
/// with defaults, meaning and accepted values, as the codec declares them; then the presets.
/// @param width  maximum characters per line
std::string codec_list_text(int width, std::span<const CodecPreset> presets = codec_presets());

/// The same as JSON: {"codecs": [...], "presets": [...]}, with all fields of CodecEntry and CodecFacts per codec.
std::string codec_list_json(std::span<const CodecPreset> presets = codec_presets());

/// Declares --list_codecs and --list_codecs_json.
void declare_codec_list(OptionSet& options);

}  // namespace terngrad
