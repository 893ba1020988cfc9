#include "trainers/options/codec_identity.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <string>
#include <vector>

#include "tests/trainers/checked_options.h"
#include "trainers/options/train_options.h"

namespace terngrad::codec_identity_test {
namespace {

using testing::accept;

TEST(CodecIdentity, HasAllKeysOfTheSpec) {
  EXPECT_EQ(codec_identity(accept({"--codec", "ternary:clip_factor=2.5e5,scope=block,block=128,format=t5"})),
            "ternary:clip_factor=250000,scaler=paper,sharing=max,clip_scope=shared,scope=block,block=128,format=t5,"
            "rounding=stochastic,levels=symmetric");
  EXPECT_EQ(codec_identity(accept({"--num_nodes", "2", "--exchange", "vendor", "--codec", "fp16"})), "fp16");
}

TEST(CodecIdentity, HasRulesAsGivenUnlessTheyHaveOptions) {
  EXPECT_EQ(codec_rules_identity(accept({"--codec_for", "fc*=fp32", "--codec_for", "*=ternary"})),
            "fc*=fp32,*=ternary");
  const std::string canonical =
      "fc*=ternary:clip_factor=2.5,scaler=paper,sharing=max,clip_scope=shared,scope=layer,format=t2,"
      "rounding=stochastic,levels=symmetric,*=ternary";
  for (const char* rule : {"fc*=ternary:clip_factor=2.50", "fc*=ternary:format=t2,clip_factor=2.5"}) {
    EXPECT_EQ(codec_rules_identity(accept({"--codec_for", rule, "--codec_for", "*=ternary"})), canonical);
  }
}

TEST(CodecIdentity, KeysOfTernaryAreThoseOfTheSpecOrTheirOptions) {
  const TrainOptions o = accept({"--codec", "ternary:format=t5", "--clip_factor", "2.5"});
  EXPECT_EQ(ternary_key_identity(o, "format"), "t5");
  EXPECT_EQ(ternary_key_identity(o, "clip_factor"), "2.5");
  EXPECT_EQ(ternary_key_identity(accept({}), "format"), "t2");
}

TEST(CodecIdentity, ASpecOfAnEarlierProgramIsTheSameCodec) {
  EXPECT_TRUE(is_same_codec("ternary:format=t5,rounding=stochastic", "ternary:format=t5"));
  EXPECT_FALSE(is_same_codec("qsgd:bits=4", "qsgd:bits=2"));
  EXPECT_FALSE(is_same_codec("a", "a:b"));
}

TEST(CodecIdentity, RulesAreComparedByWhatTheyStandFor) {
  const std::string now = "conv*=qsgd:bits=4,norm=max,fc?=ternary:format=t5,rounding=stochastic,last=fp32";
  EXPECT_TRUE(are_same_rules(now, "conv*=qsgd:bits=4,fc?=ternary:format=t5,last=fp32"));
  for (const char* other :
       {"conv*=qsgd:bits=2,fc?=ternary:format=t5,last=fp32",
        "conv*=qsgd:bits=4,fc?=ternary:format=t5,rounding=nearest,last=fp32",
        "conv*=qsgd:bits=4,fc?=ternary:format=t5,last=bf16", "conv*=qsgd:bits=4,fc?=ternary:format=t5",
        "fc?=ternary:format=t5,conv*=qsgd:bits=4,last=fp32", "conv1=qsgd:bits=4,fc?=ternary:format=t5,last=fp32", ""}) {
    EXPECT_FALSE(are_same_rules(now, other)) << other;
  }
  EXPECT_FALSE(are_same_rules("", "a=unknown:bits=4"));
  // A name alone takes the values of other options.
  EXPECT_FALSE(are_same_rules("a=ternary", "a=ternary:format=t2"));
}

}  // namespace
}  // namespace terngrad::codec_identity_test
