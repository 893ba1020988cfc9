// Options of tools that measure several codecs: --codec, repeatable, and --clip_factor.
#pragma once

#include <string>
#include <vector>

namespace terngrad {

class OptionSet;

/// Checks the values of --codec, each a name or spec that compared_codec_spec takes or one of `others`. A spec's own
/// clip_factor may not differ from a --clip_factor that the user set.
/// @param others  names that are accepted and are no codecs
/// @throws UsageError naming the option, and what is accepted
void check_compared_codecs(const OptionSet& options, const std::vector<std::string>& codecs, double clip_factor,
                           const std::vector<std::string>& others);

/// Whether it is ternary in any format. @param codec  of --codec, checked; or fp16
bool is_compared_ternary(const std::string& codec);

}  // namespace terngrad
