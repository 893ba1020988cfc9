#include "compress/codecs/ternary_spec.h"

#include <gtest/gtest.h>

#include <limits>

#include "kernels/runtime/errors.h"

namespace terngrad::ternary_spec_test {
namespace {

/// Options text.
std::string text_of(const TernaryOptions& options) { return TernaryCodec(options).options_text(); }

TernaryOptions read(const std::string& spec, const TernaryOptions& defaults = {}) {
  SpecReader reader(parse_codec_spec(spec));
  const TernaryOptions options = read_ternary_options(reader, defaults);
  reader.finish();
  return options;
}

TEST(TernarySpec, OfNoOptionsIsTheCodecsDefaults) { EXPECT_EQ(text_of(read("ternary")), text_of({})); }

TEST(TernarySpec, ReadsEveryKey) {
  const TernaryOptions o =
      read("ternary:clip_factor=1.5,scaler=original,sharing=none,clip_scope=local,scope=block,block=640,format=tmask");
  EXPECT_EQ(o.clip_factor, 1.5);
  EXPECT_EQ(o.rule, ScalerRule::kOriginal);
  EXPECT_EQ(o.sharing, ScalerSharing::kNone);
  EXPECT_EQ(o.clip_scope, ClipScope::kLocal);
  EXPECT_EQ(o.scope, ScalerScope::kBlock);
  EXPECT_EQ(o.block_elements, 640);
  EXPECT_EQ(o.format, TernaryFormat::kTMask);
  EXPECT_EQ(read("ternary:levels=asymmetric").levels, TernaryLevels::kAsymmetric);
  EXPECT_EQ(read("ternary:rounding=nearest").rounding, Rounding::kNearest);
  EXPECT_EQ(read("ternary:sharing=mean").sharing, ScalerSharing::kMean);
  EXPECT_EQ(read("ternary:scope=model").scope, ScalerScope::kModel);
  EXPECT_EQ(read("ternary:format=t5").format, TernaryFormat::kT5);
  EXPECT_EQ(read("ternary:format=t5", {.clip_factor = 2.5}).clip_factor, 2.5);
}

TEST(TernarySpec, RefusesWhatTheCodecDoesNotTake) {
  for (const char* spec :
       {"ternary:clip_factor=-0.5", "ternary:clip_factor=inf", "ternary:scaler=max", "ternary:sharing=sum",
        "ternary:clip_scope=layer", "ternary:scope=tensor", "ternary:scope=block,block=0",
        "ternary:scope=block,block=65", "ternary:scope=block,block=1125899906842688", "ternary:block=64",
        "ternary:scope=model,block=64", "ternary:format=lanes", "ternary:format=T2", "ternary:levels=two"}) {
    EXPECT_THROW(read(spec), InvalidArgument) << spec;
  }
  EXPECT_NO_THROW(read("ternary:scope=block,block=1125899906842624"));
}

TEST(TernarySpec, OfOptionsReadsAsThese) {
  for (const TernaryOptions& options :
       {TernaryOptions{}, TernaryOptions{.clip_factor = 0.1, .rule = ScalerRule::kOriginal},
        TernaryOptions{.clip_factor = 1e-300, .sharing = ScalerSharing::kNone, .clip_scope = ClipScope::kLocal},
        TernaryOptions{.scope = ScalerScope::kBlock, .block_elements = 192, .format = TernaryFormat::kT5},
        TernaryOptions{.rounding = Rounding::kNearest, .levels = TernaryLevels::kAsymmetric},
        TernaryOptions{.sharing = ScalerSharing::kMean, .scope = ScalerScope::kModel}}) {
    EXPECT_EQ(text_of(read(ternary_spec(options))), text_of(options));
  }
  EXPECT_THROW(ternary_spec({.format = TernaryFormat::kLanes}), InvalidArgument);
}

}  // namespace
}  // namespace terngrad::ternary_spec_test
