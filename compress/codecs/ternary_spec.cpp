#include "compress/codecs/ternary_spec.h"

#include <limits>

#include "kernels/statistics/scaler_limits.h"

namespace terngrad {

TernaryOptions read_ternary_options(SpecReader& reader, TernaryOptions defaults) {
  TernaryOptions o = defaults;
  o.clip_factor = reader.number("clip_factor", o.clip_factor, 0, std::numeric_limits<double>::max(),
                                "clip at this many standard deviations; 0: no clipping");
  o.rule = reader.choice("scaler", o.rule, {{"paper", ScalerRule::kPaper}, {"original", ScalerRule::kOriginal}},
                         "with clipping: paper is min(max|g|, c sigma), original is c sigma");
  o.sharing =
      reader.choice("sharing", o.sharing,
                    {{"max", ScalerSharing::kMax}, {"mean", ScalerSharing::kMean}, {"none", ScalerSharing::kNone}},
                    "how workers' scalers combine (mean is biased)");
  o.clip_scope =
      reader.choice("clip_scope", o.clip_scope, {{"shared", ClipScope::kShared}, {"local", ClipScope::kLocal}},
                    "saturate at the shared scaler, or at the worker's own first");
  o.scope =
      reader.choice("scope", o.scope,
                    {{"layer", ScalerScope::kLayer}, {"block", ScalerScope::kBlock}, {"model", ScalerScope::kModel}},
                    "what shares one scaler");
  o.block_elements = reader.integer("block", o.block_elements, kMinBlockElements, kMaxBlockElements,
                                    "elements per scaler of scope=block", kMinBlockElements);
  reader.require_for("block", o.scope == ScalerScope::kBlock, "scope=block");
  o.format = reader.choice("format", o.format,
                           {{"t2", TernaryFormat::kT2},
                            {"t5", TernaryFormat::kT5},
                            {"tmask", TernaryFormat::kTMask},
                            {"trans", TernaryFormat::kTrans}},
                           "2 bits, 1.6 bits, a mask with signs, or an entropy-coded mask with signs");
  o.rounding = reader.choice(
      "rounding", o.rounding,
      {{"stochastic", Rounding::kStochastic}, {"nearest", Rounding::kNearest}, {"stratified", Rounding::kStratified}},
      "stochastic is unbiased without clipping; stratified too, and the errors of different workers "
      "cancel; nearest draws nothing");
  o.levels = reader.choice("levels", o.levels,
                           {{"symmetric", TernaryLevels::kSymmetric}, {"asymmetric", TernaryLevels::kAsymmetric}},
                           "a scaler for both signs, or one for each, whose codes do not add up");
  o.rotation = reader.rotation(o.rotation);
  return o;
}

std::string ternary_spec(const TernaryOptions& options) {
  SpecReader reader(CodecSpec{"ternary"});
  read_ternary_options(reader, options);
  return to_string(reader.canonical());
}

}  // namespace terngrad
