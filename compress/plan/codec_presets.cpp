#include "compress/plan/codec_presets.h"

#include <algorithm>
#include <array>

namespace terngrad {
namespace {

// One entry for each preset.
constexpr auto kPresets = std::to_array<CodecPreset>({
    {"int8", "whole numbers of 8 bits for blocks of 128 elements", "qsgd:bits=8,rounding=nearest,block=128", ""},
    {"nuqsgd", "powers of two in 4 bits, for blocks of the size of the publication (Ramezani-Kebrya et al., JMLR 2021)",
     "natural:bits=4,norm=l2,block=8192", ""},
    {"signsgd", "the majority's signs, the same rate for every element (Bernstein et al., ICML 2018)",
     "sign:reduce=vote,scale=one", "none"},
    {"signum", "signsgd of a moving average of gradients (Bernstein et al., ICML 2018)", "sign:reduce=vote,scale=one",
     "momentum"},
    {"efsignsgd",
     "signs times their mean magnitude, with what they leave out sent later (Karimireddy et al., ICML 2019)", "sign",
     "ef"},
    {"thc",
     "rotated, 4 bits of a range that all share, codes that add up, with what they leave out sent later (Li et al., "
     "NSDI 2024)",
     "qsgd:bits=4,norm=rms,clip=2.154,sharing=max,rotate=1024", "ef"},
    {"dgc",
     "the largest 0.1 % of each tensor, of momentum that is masked where it was sent; with --optimizer gd (Lin et al., "
     "ICLR 2018)",
     "topk:density=0.001", "dgc"},
    {"terngrad_ef", "ternary codes by nearest rounding, with what they leave out sent later",
     "ternary:rounding=nearest,clip_factor=1.22", "ef"},
});

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
