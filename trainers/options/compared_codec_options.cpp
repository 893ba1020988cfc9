#include "trainers/options/compared_codec_options.h"

#include <algorithm>

#include "compress/codec/codec_spec.h"
#include "compress/cost/compared_codecs.h"
#include "compress/plan/codec_registry.h"
#include "kernels/runtime/errors.h"
#include "trainers/command_line/option_set.h"

namespace terngrad {
namespace {

std::string clip_factor_of(const std::string& codec, double clip_factor) {
  const SpecOptions options = compared_codec_spec(codec, clip_factor).options;
  return std::ranges::find(options, "clip_factor", &SpecOptions::value_type::first)->second;
}

}  // namespace

void check_compared_codecs(const OptionSet& options, const std::vector<std::string>& codecs, double clip_factor,
                           const std::vector<std::string>& others) {
  for (const std::string& codec : codecs) {
    if (std::ranges::find(others, codec) != others.end()) continue;
    try {
      make_codec(to_string(compared_codec_spec(codec, clip_factor)), {});
    } catch (const InvalidArgument& error) {
      std::string more = "t2, t5";
      for (const std::string& other : others) more += ", " + other;
      TERNGRAD_THROW(UsageError, "--codec ", codec, ": ", error.what(), "; here also: ", more);
    }
    if (!options.was_set("clip_factor") || !is_compared_ternary(codec)) continue;
    const std::string by_spec = clip_factor_of(codec, clip_factor);
    const std::string by_option = clip_factor_of("ternary", clip_factor);
    if (by_spec == by_option) continue;
    TERNGRAD_THROW(UsageError, "--clip_factor ", by_option, ": contradicts clip_factor=", by_spec, " in --codec ",
                   codec, "; give one of them, or values that agree");
  }
}

bool is_compared_ternary(const std::string& codec) {
  return codec != "fp16" && compared_codec_spec(codec, 0).name == "ternary";
}

}  // namespace terngrad
