#include "compress/cost/compared_codecs.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "compress/codecs/ternary_spec.h"
#include "kernels/runtime/errors.h"

namespace terngrad::compared_codecs_test {
namespace {

using ::testing::ElementsAre;

TEST(ComparedCodecs, AreTheFloatsAndTwoTernaryFormats) {
  EXPECT_THAT(compared_codec_names(), ElementsAre("fp32", "bf16", "t2", "t5"));
  EXPECT_EQ(compared_codec("fp32", {}).codecs.codec, "fp32");
  EXPECT_EQ(compared_codec("bf16", {}).codecs.codec, "bf16");
  EXPECT_EQ(compared_codec("t2", {}).codecs.codec, ternary_spec({.clip_factor = 2.5, .format = TernaryFormat::kT2}));
  EXPECT_EQ(compared_codec("t5", {}).codecs.codec, ternary_spec({.clip_factor = 2.5, .format = TernaryFormat::kT5}));
}

TEST(ComparedCodecs, TakeTheirOptions) {
  const CompressedAllReduceOptions options = compared_codec("t5", {.clip_factor = 1.5, .quantize_logits = true});
  EXPECT_EQ(options.codecs.codec, ternary_spec({.clip_factor = 1.5, .format = TernaryFormat::kT5}));
  EXPECT_TRUE(options.codecs.quantize_logits);
  EXPECT_FALSE(compared_codec("t5", {}).codecs.quantize_logits);
}

TEST(ComparedCodecs, MayBeAnySpec) {
  EXPECT_EQ(compared_codec("ternary:format=tmask", {.clip_factor = 1.5}).codecs.codec,
            ternary_spec({.clip_factor = 1.5, .format = TernaryFormat::kTMask}));
  EXPECT_EQ(compared_codec("ternary:clip_factor=0", {.clip_factor = 1.5}).codecs.codec, ternary_spec({}));
  EXPECT_EQ(compared_codec_spec("t5", 2.5), compared_codec_spec("ternary:clip_factor=2.5,format=t5", 1));
  EXPECT_EQ(compared_codec_spec("bf16", 2.5), (CodecSpec{"bf16"}));
}

TEST(ComparedCodecs, AnotherNameIsRefused) {
  for (const char* name : {"", "tmask", "fp16", "t2:clip_factor=1", "ternary:bits=4"}) {
    EXPECT_THROW(compared_codec(name, {}), InvalidArgument) << name;
  }
}

}  // namespace
}  // namespace terngrad::compared_codecs_test
