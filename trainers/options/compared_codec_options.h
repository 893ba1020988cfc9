// Options of tools that compare several codecs: a repeatable --codec, and --clip_factor.
#pragma once

#include <string>
#include <vector>

namespace terngrad {

class OptionSet;

/// Checks the values of --codec: each is a name or spec for compared_codec_spec, or one of `others`. A spec's
/// clip_factor must not contradict a --clip_factor that the user set.
/// @param others  accepted names that are not codecs
/// @throws UsageError naming the option and the accepted values
void check_compared_codecs(const OptionSet& options, const std::vector<std::string>& codecs, double clip_factor,
                           const std::vector<std::string>& others);

/// True if the codec is ternary in any format. @param codec  checked value of --codec, or fp16
bool is_compared_ternary(const std::string& codec);

}  // namespace terngrad
