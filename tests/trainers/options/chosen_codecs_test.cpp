#include "trainers/options/chosen_codecs.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <string>
#include <vector>

#include "kernels/runtime/errors.h"
#include "tests/trainers/temporary_directory.h"
#include "trainers/options/train_options.h"

namespace terngrad::chosen_codecs_test {
namespace {

using ::testing::ElementsAre;
using testing::message_of;
using ::testing::StartsWith;

/// Each codec that the options select: the option, and its complete spec.
std::vector<std::string> choices(const TrainOptions& o) {
  std::vector<std::string> all;
  for (const ChosenCodec& codec : chosen_codecs(o)) all.push_back(codec.given + " is " + to_string(codec.spec));
  return all;
}

std::string refusal(const TrainOptions& o) {
  return message_of<UsageError>([&] { chosen_codecs(o); });
}

TEST(CodecChoice, IsByNameOrByBits) {
  TrainOptions o;
  EXPECT_THAT(choices(o), ElementsAre("--grad_bits 32 is fp32"));
  o.grad_bits = 1;
  EXPECT_THAT(choices(o), ElementsAre("--grad_bits 1 is ternary:clip_factor=0,scaler=paper,sharing=max,"
                                      "clip_scope=shared,scope=layer,format=t2,rounding=stochastic,levels=symmetric"));
  o.grad_bits = 8;
  EXPECT_THAT(choices(o),
              ElementsAre("--grad_bits 8 is qsgd:bits=8,norm=max,block=512,rounding=stochastic,sharing=none"));
  o.codec = "bf16";
  EXPECT_THAT(choices(o), ElementsAre("--codec bf16 is bf16"));
  o.codec = "fp16";
  EXPECT_THAT(choices(o), ElementsAre());
}

TEST(CodecChoice, TakesOptionsForTheKeysOfTernaryThatASpecLeavesOpen) {
  TrainOptions o;
  o.codec = "ternary:format=t5";
  o.codec_for = {"a*=ternary:clip_factor=0", "b=fp32"};
  o.clip_factor = 2.5;
  o.scaler = "original";
  o.scaler_sharing = "mean";
  o.clip_scope = "local";
  o.scaler_scope = "block";
  o.block_size = 640;
  o.ternary_format = "tmask";
  EXPECT_THAT(
      choices(o),
      ElementsAre(
          "--codec ternary:format=t5 is ternary:clip_factor=2.5,scaler=original,sharing=mean,"
          "clip_scope=local,scope=block,block=640,format=t5,rounding=stochastic,levels=symmetric",
          "--codec_for a*=ternary:clip_factor=0 is ternary:clip_factor=0,scaler=original,"
          "sharing=mean,clip_scope=local,scope=block,block=640,format=tmask,rounding=stochastic,levels=symmetric",
          "--codec_for b=fp32 is fp32"));
  const ChosenCodec codec = chosen_codecs(o).front();
  EXPECT_TRUE(codec.names("format"));
  EXPECT_FALSE(codec.names("clip_factor"));
  EXPECT_EQ(codec.value("clip_factor"), "2.5");
  EXPECT_EQ(codec.value("bits"), "");
}

TEST(CodecChoice, MakesCodecsForAllWorkers) {
  TrainOptions o;
  o.num_nodes = 7;
  o.codec = "ternary";
  EXPECT_THAT(chosen_codecs(o).front().codec->options_text(), ::testing::EndsWith(" workers=7"));
}

TEST(CodecChoice, GivesThePlanTheSameSpecs) {
  TrainOptions o;
  o.codec = "ternary:clip_factor=2.5";
  o.codec_for = {"a*=bf16"};
  o.size_to_binarize = 9;
  o.quantize_logits = true;
  const CodecPlanOptions plan = codec_plan_options(o);
  EXPECT_EQ(plan.codec, to_string(chosen_codecs(o).front().spec));
  ASSERT_EQ(plan.rules.size(), 1u);
  EXPECT_EQ(plan.rules[0].pattern, "a*");
  EXPECT_EQ(plan.rules[0].codec, "bf16");
  EXPECT_EQ(plan.size_to_binarize, 9);
  EXPECT_TRUE(plan.quantize_logits);
}

TEST(CodecChoice, RefusesNamingTheOption) {
  TrainOptions o;
  o.codec = "ternary:bits=4";
  EXPECT_EQ(refusal(o),
            "--codec ternary:bits=4: [ternary] there is no key 'bits'; accepted: clip_factor, scaler, sharing, "
            "clip_scope, scope, block, format, rounding, levels, rotate");
  o.codec = "ternary:";
  EXPECT_THAT(refusal(o), StartsWith("--codec ternary:: [codec] 'ternary:' is no codec spec: nothing follows ':'"));
  o.codec = "auto";
  o.codec_for = {"a=bf16", "b=ternary:scope=block,block=100"};
  EXPECT_THAT(refusal(o), StartsWith("--codec_for b=ternary:scope=block,block=100: [ternary] block=100 is refused"));
  o.codec_for = {"fp32"};
  EXPECT_THAT(refusal(o), StartsWith("--codec_for fp32: [codec_for] 'fp32' is not PATTERN=SPEC"));
}

}  // namespace
}  // namespace terngrad::chosen_codecs_test
