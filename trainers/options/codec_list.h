// The list of codecs that --list_codecs and --list_codecs_json print.
#pragma once

#include <span>
#include <string>

#include "compress/plan/codec_presets.h"

namespace terngrad {

class OptionSet;

/// Every codec of the registry with its source, bits per element, how messages of workers combine, and its keys with
/// defaults, meaning and accepted values, as the codec's own reading declares them; then the presets.
/// @param width  characters in a line
std::string codec_list_text(int width, std::span<const CodecPreset> presets = codec_presets());

/// The same for programs: {"codecs": [...], "presets": [...]}, with all of CodecEntry and CodecFacts of each codec.
std::string codec_list_json(std::span<const CodecPreset> presets = codec_presets());

/// Declares --list_codecs and --list_codecs_json, which ask for these lists.
void declare_codec_list(OptionSet& options);

}  // namespace terngrad
