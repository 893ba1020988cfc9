#include "trainers/options/compression_option_checks.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <map>
#include <string>
#include <vector>

#include "compress/exchange/all_reduce_options.h"
#include "compress/plan/codec_plan.h"
#include "kernels/runtime/errors.h"
#include "tests/trainers/checked_options.h"
#include "tests/trainers/temporary_directory.h"

namespace terngrad::compression_option_checks_test {
namespace {

using testing::accept;
using ::testing::AllOf;
using testing::expect_accepted;
using testing::expect_refused;
using ::testing::HasSubstr;
using testing::message_of;
using testing::Refusal;
using testing::refuse;

TEST(CompressionOptionChecks, ContradictionsAreRefused) {
  expect_refused({
      {{"--codec", "fp32", "--grad_bits", "1"}, {"--codec fp32", "--grad_bits 1", "ternary"}},
      {{"--codec", "ternary", "--grad_bits", "32"}, {"--codec ternary", "--grad_bits 32", "fp32"}},
      {{"--num_nodes", "2", "--grad_bits", "1", "--scaler_sharing", "none", "--downlink_codec", "sums"},
       {"--downlink_codec sums", "--scaler_sharing none", "fp32, bf16"}},
      {{"--num_nodes", "2", "--grad_bits", "1", "--scaler_sharing", "none", "--downlink_codec", "ternary"},
       {"--downlink_codec ternary", "--scaler_sharing none", "fp32, bf16"}},
      {{"--num_nodes", "2", "--grad_bits", "1", "--scaler_sharing", "none", "--exchange", "integer_sum"},
       {"--exchange integer_sum", "max or mean"}},
      {{"--num_nodes", "2", "--exchange", "integer_sum"}, {"--exchange integer_sum", "ternary"}},
      {{"--num_nodes", "2", "--codec", "fp16"}, {"--codec fp16", "--exchange vendor", "fp32, bf16, ternary"}},
      {{"--num_nodes", "2", "--codec", "fp16", "--grad_bits", "16"}, {"--codec fp16", "--grad_bits 16", "bf16"}},
      {{"--num_nodes", "2", "--exchange", "vendor", "--grad_bits", "1"}, {"--exchange vendor", "fp32, bf16 or fp16"}},
      {{"--num_nodes", "2", "--exchange", "vendor", "--codec_for", "*=bf16"}, {"--exchange vendor", "--codec_for"}},
      {{"--num_nodes", "2", "--exchange", "vendor", "--on_nonfinite", "zero"},
       {"--on_nonfinite zero", "(vendor)", "stop, skip"}},
      {{"--codec_for", "conv*"}, {"--codec_for conv*", "PATTERN=SPEC"}},
      {{"--codec_for", "*=sgd"}, {"--codec_for *=sgd", "fp32, bf16, ternary"}},
      {{"--codec_for", "=fp32"}, {"--codec_for =fp32", "PATTERN=SPEC"}},
  });
}

TEST(CompressionOptionChecks, OptionsWithoutEffectAreRefused) {
  expect_refused({
      {{"--num_nodes", "2", "--downlink_codec", "sums"}, {"--downlink_codec sums", "ternary", "fp32, bf16"}},
      {{"--grad_bits", "16", "--downlink_codec", "ternary"}, {"--downlink_codec ternary", "ternary", "fp32, bf16"}},
      {{"--num_nodes", "2", "--grad_bits", "1", "--exchange", "all_gather", "--downlink_codec", "sums"},
       {"--downlink_codec sums", "--exchange all_gather", "accepted with it: fp32, bf16, ternary", "scatter_reduce"}},
      {{"--grad_bits", "1", "--exchange", "scatter_reduce"}, {"--exchange", "--num_nodes 2 or more"}},
      {{"--strategy", "replicated", "--exchange", "all_gather"}, {"--exchange", "--num_nodes 2 or more"}},
      {{"--grad_bits", "1", "--exchange", "integer_sum"}, {"--exchange", "--num_nodes 2 or more"}},
      {{"--grad_bits", "1", "--scaler_sharing", "mean"}, {"--scaler_sharing", "--num_nodes 2 or more"}},
      {{"--grad_bits", "1", "--scaler_sharing", "none"}, {"--scaler_sharing", "--num_nodes 2 or more"}},
      {{"--grad_bits", "1", "--clip_factor", "2.5", "--clip_scope", "local"},
       {"--clip_scope", "--num_nodes 2 or more"}},
      {{"--grad_bits", "1", "--downlink_codec", "sums"}, {"--downlink_codec", "--num_nodes 2 or more"}},
      {{"--num_nodes", "2", "--exchange", "vendor", "--downlink_codec", "bf16"},
       {"--downlink_codec", "other than vendor"}},
      {{"--num_nodes", "2", "--exchange", "vendor", "--grad_bits", "16", "--quantize_logits"},
       {"--quantize_logits", "other than vendor"}},
      {{"--num_nodes", "2", "--size_to_binarize", "9"}, {"--size_to_binarize", "other than fp32"}},
      {{"--num_nodes", "2", "--quantize_logits"}, {"--quantize_logits", "other than fp32"}},
      {{"--num_nodes", "2", "--floating_grad_epoch", "2"}, {"--floating_grad_epoch", "other than fp32"}},
      {{"--num_nodes", "2", "--codec_for", "*=fp32", "--floating_grad_epoch", "2"},
       {"--floating_grad_epoch", "other than fp32"}},
      {{"--grad_bits", "1", "--block_size", "64"}, {"--block_size", "--scaler_scope block"}},
      {{"--grad_bits", "1", "--clip_scope", "local"}, {"--clip_scope", "--clip_factor above 0"}},
      {{"--grad_bits", "1", "--scaler", "original"}, {"--scaler", "--clip_factor above 0"}},
      {{"--num_nodes", "2", "--grad_bits", "1", "--clip_factor", "2.5", "--clip_scope", "local", "--scaler_sharing",
        "none"},
       {"--clip_scope local", "--scaler_sharing none", "accepted with it: shared"}},
      {{"--num_nodes", "2", "--grad_bits", "1", "--exchange", "integer_sum", "--ternary_format", "t5"},
       {"--ternary_format", "other than integer_sum"}},
  });
}

TEST(CompressionOptionChecks, AnAdamOfDirectionsIsRefusedWhereItCannotWork) {
  expect_refused({
      {{"--optimizer", "onebit_adam", "--num_nodes", "2"}, {"none does here", "with --codec fp32: adam"}},
      {{"--optimizer", "zero_one_adam", "--num_nodes", "2", "--codec", "bf16", "--exchange", "vendor"},
       {"--optimizer zero_one_adam", "none does here"}},
      {{"--optimizer", "onebit_adam", "--num_nodes", "2", "--grad_bits", "1"},
       {"variance", "--compress_from 1 or more"}},
      {{"--optimizer", "zero_one_adam", "--num_nodes", "2", "--grad_bits", "1", "--reduce", "sum"},
       {"multiplied by --num_nodes", "--reduce average"}},
      {{"--optimizer", "zero_one_adam", "--num_nodes", "2", "--grad_bits", "1", "--strategy", "ps", "--pull",
        "parameters"},
       {"momentum and variance", "--pull gradient"}},
      {{"--optimizer", "zero_one_adam", "--num_nodes", "2", "--grad_bits", "1", "--strategy", "async",
        "--scaler_sharing", "none"},
       {"momentum and variance", "--strategy replicated"}},
      {{"--optimizer", "zero_one_adam", "--num_nodes", "2", "--grad_bits", "1", "--codec_memory", "momentum"},
       {"--codec_memory momentum", "averages a second time"}},
      {{"--optimizer", "onebit_adam", "--num_nodes", "2", "--grad_bits", "1", "--floating_grad_epoch", "2"},
       {"variance", "--compress_from 1 or more"}},
      {{"--optimizer", "onebit_adam", "--num_nodes", "2", "--grad_bits", "1", "--compress_from", "5", "--freeze",
        "conv1/*", "--freeze_until", "5"},
       {"never move", "below --compress_from"}},
      {{"--optimizer", "zero_one_adam", "--num_nodes", "2", "--grad_bits", "1", "--on_nonfinite", "zero"},
       {"momentum of a worker", "--nan_to_zero"}},
      {{"--optimizer", "zero_one_adam", "--num_nodes", "2", "--grad_bits", "1", "--max_steps", "17"},
       {"exchanges fp32 in 16 steps", "--max_steps 17", "a smaller --variance_update_scaler"}},
      {{"--optimizer", "zero_one_adam", "--num_nodes", "2", "--codec", "signsgd", "--quantize_logits"},
       {"scale=one", "--optimizer zero_one_adam"}},
      {{"--optimizer", "adam", "--variance_update_scaler", "4"}, {"--variance_update_scaler 4", "zero_one_adam"}},
      {{"--optimizer", "zero_one_adam", "--num_nodes", "2", "--grad_bits", "1", "--variance_update_scaler",
        "9223372036854775807"},
       {"exchanges fp32 in 9223372036854775807 steps"}},
  });
  accept({"--optimizer", "zero_one_adam", "--num_nodes", "2", "--grad_bits", "1", "--max_steps", "18"});
}

TEST(CompressionOptionChecks, MemoriesThatHaveNothingToKeepAreRefused) {
  expect_refused({
      {{"--num_nodes", "2", "--codec_memory", "ef"}, {"--codec_memory ef", "has nothing to keep", "none"}},
      {{"--num_nodes", "2", "--exchange", "vendor", "--codec", "bf16", "--codec_memory", "ef"},
       {"--codec_memory ef", "(vendor)", "none"}},
      {{"--grad_bits", "1", "--codec_memory", "adam"},
       {"--codec_memory adam", "accepted: none, ef, momentum, dgc, loco, ef21"}},
      {{"--grad_bits", "1", "--codec_memory", "dgc"}, {"--codec_memory dgc", "sends all of them", "topk or randomk"}},
      {{"--codec", "dgc"}, {"the memory dgc of --codec dgc", "--optimizer momentum", "--optimizer gd"}},
      {{"--codec", "dgc", "--optimizer", "gd", "--compress_from", "10"}, {"rests in steps", "stage_steps"}},
      {{"--codec", "topk:stage_steps=5", "--optimizer", "zero_one_adam"}, {"stage_steps counts", "zero_one_adam"}},
      {{"--codec", "topk:stage_steps=5", "--compress_from", "10"}, {"stage_steps counts from step 0", "none of them"}},
      {{"--codec", "topk:stage_steps=5,density=0.25"}, {"needs a density below 0.25"}},
      {{"--codec", "randomk:scale=q", "--codec_memory", "ef"}, {"scales up what it sends", "scale=1"}},
      {{"--codec", "randomk:scale=q", "--codec_memory", "dgc"}, {"scales up what it sends", "scale=1"}},
      {{"--grad_bits", "1", "--codec_memory", "ef:beta=1"}, {"--codec_memory ef:beta=1", "accepted: decay"}},
      {{"--grad_bits", "1", "--codec_memory", "momentum", "--error_feedback", "true"},
       {"--error_feedback true", "contradicts --codec_memory momentum"}},
      {{"--grad_bits", "1", "--error_feedback_decay", "0.5"}, {"--error_feedback_decay", "--codec_memory ef"}},
      {{"--grad_bits", "1", "--codec_memory", "ef:decay=0.9", "--error_feedback_decay", "0.5"},
       {"--error_feedback_decay 0.5", "contradicts --codec_memory ef:decay=0.9"}},
      {{"--grad_bits", "1", "--codec_for", "conv*=terngrad_ef"},
       {"--codec_for conv*=terngrad_ef", "memory ef", "one for all tensors",
        "ternary:rounding=nearest,clip_factor=1.22"}},
      {{"--num_nodes", "2", "--exchange", "vendor", "--codec", "fp16", "--error_feedback", "true"},
       {"--error_feedback true", "(vendor)"}},
      {{"--num_nodes", "2", "--exchange", "vendor", "--codec", "fp16", "--codec_memory", "adam", "--error_feedback",
        "true"},
       {"--codec_memory adam", "accepted: none, ef, momentum, dgc, loco, ef21"}},
      {{"--grad_bits", "1", "--codec_memory", "ef:decay=0.5", "--error_feedback_decay", "1"},
       {"--error_feedback_decay 1", "contradicts --codec_memory ef:decay=0.5"}},
      {{"--grad_bits", "1", "--codec_for", "conv*=onebit"},
       {"--codec_for conv*=onebit", "made for error feedback", "--error_feedback true or false"}},
      {{"--grad_bits", "1", "--codec_memory", "momentum:decay=1"}, {"momentum:decay=1", "from 0 to 0.9999"}},
      {{"--num_nodes", "4", "--codec", "signsgd", "--quantize_logits", "--compress_from", "10"},
       {"--codec signsgd", "--compress_from"}},
      {{"--num_nodes", "4", "--codec", "sign:reduce=vote", "--codec_memory", "ef"},
       {"--codec_memory ef", "a vote is no sum", "none, momentum", "reduce=mean"}},
      {{"--num_nodes", "4", "--codec", "signsgd"}, {"--codec signsgd", "scale=one", "--quantize_logits", "scale=l1"}},
      {{"--num_nodes", "4", "--codec", "signsgd", "--quantize_logits", "--codec_for", "conv*=bf16"},
       {"--codec signsgd", "for all tensors"}},
      {{"--grad_bits", "1", "--max_steps", "10", "--compress_from", "10"},
       {"--compress_from 10", "--max_steps 10 are over before", "accepted here: 0"}},
      {{"--num_nodes", "2", "--compress_from", "10"}, {"--compress_from", "other than fp32"}},
  });
}

TEST(CompressionOptionChecks, SpecsThatTheirCodecDoesNotTakeAreRefused) {
  expect_refused({
      {{"--codec", "nonsense"}, {"--codec nonsense", "accepted: fp32, bf16, ternary"}},
      {{"--codec", "ternary:"}, {"--codec ternary:", "nothing follows ':'", "NAME:KEY=VALUE"}},
      {{"--codec", "ternary:bits=4"}, {"--codec ternary:bits=4", "no key 'bits'", "clip_factor, scaler, sharing"}},
      {{"--codec", "fp32:clip_factor=1"}, {"--codec fp32:clip_factor=1", "no key 'clip_factor'", "no options"}},
      {{"--codec", "ternary:format=t9"}, {"--codec ternary:format=t9", "format=t9", "t2, t5, tmask, trans"}},
      {{"--codec", "ternary:block=64"}, {"--codec ternary:block=64", "block=64", "scope=block"}},
      {{"--codec_for", "*=ternary:bits=4"}, {"--codec_for *=ternary:bits=4", "no key 'bits'", "clip_factor, scaler"}},
      {{"--num_nodes", "2", "--exchange", "vendor", "--codec", "ternary:clip_factor=2.5"},
       {"--exchange vendor", "fp32, bf16 or fp16", "ternary"}},
      {{"--num_nodes", "2", "--codec", "ternary:sharing=none", "--downlink_codec", "sums"},
       {"--downlink_codec sums", "--codec ternary:sharing=none", "fp32, bf16"}},
      {{"--num_nodes", "2", "--codec", "sign:reduce=vote", "--downlink_codec", "ternary"},
       {"--downlink_codec ternary", "--codec sign:reduce=vote", "accepted with it: fp32, bf16, sums"}},
      {{"--num_nodes", "2", "--codec", "sign", "--downlink_codec", "sums"}, {"--downlink_codec sums", "fp32, bf16"}},
      {{"--num_nodes", "2", "--grad_bits", "1", "--codec_for", "a=ternary:sharing=none", "--downlink_codec", "ternary"},
       {"--downlink_codec ternary", "--codec_for a=ternary:sharing=none", "fp32, bf16"}},
      {{"--num_nodes", "2", "--codec", "ternary:sharing=none", "--exchange", "integer_sum"},
       {"--exchange integer_sum", "max or mean"}},
      {{"--num_nodes", "2", "--codec", "ternary:levels=asymmetric", "--downlink_codec", "sums"},
       {"--downlink_codec sums", "integers", "--codec ternary:levels=asymmetric", "fp32, bf16"}},
      {{"--num_nodes", "2", "--codec", "ternary", "--codec_for", "a=ternary:levels=asymmetric", "--downlink_codec",
        "ternary"},
       {"--downlink_codec ternary", "--codec_for a=ternary:levels=asymmetric", "fp32, bf16"}},
      {{"--num_nodes", "2", "--codec", "ternary:levels=asymmetric", "--exchange", "integer_sum"},
       {"--exchange integer_sum", "symmetric levels"}},
      {{"--num_nodes", "2", "--codec", "ternary:levels=asymmetric", "--scaler_sharing", "mean"},
       {"--codec ternary:levels=asymmetric", "sharing=mean", "max or none"}},
      {{"--codec", "ternary:levels=asymmetric,scope=model"}, {"scope=model", "levels=asymmetric", "layer or a block"}},
      {{"--num_nodes", "2", "--codec", "ternary:format=t5", "--exchange", "integer_sum"},
       {"--codec ternary:format=t5", "format=t5 has no effect here", "other than integer_sum", "accepted here: t2"}},
      {{"--codec", "ternary:scaler=original"},
       {"--codec ternary:scaler=original", "clip_factor above 0", "accepted here: paper"}},
      {{"--codec", "ternary:clip_scope=local"}, {"--codec ternary:clip_scope=local", "clip_factor above 0", "shared"}},
      {{"--num_nodes", "2", "--codec", "ternary:clip_factor=2.5,clip_scope=local,sharing=none"},
       {"clip_scope=local has no effect here", "sharing other than none", "accepted here: shared"}},
      {{"--strategy", "simple", "--codec", "ternary:format=t5"}, {"--strategy simple", "ternary"}},
  });
}

TEST(CompressionOptionChecks, KeysAndOptionsThatDifferAreRefused) {
  expect_refused({
      {{"--codec", "ternary:clip_factor=2.5", "--clip_factor", "1"},
       {"--clip_factor 1: contradicts clip_factor=2.5 in --codec ternary:clip_factor=2.5", "values that agree"}},
      {{"--codec", "ternary:clip_factor=2.5", "--clip_factor", "0"}, {"--clip_factor 0: contradicts clip_factor=2.5"}},
      {{"--codec", "ternary:scaler=paper,clip_factor=1", "--scaler", "original"},
       {"--scaler original", "scaler=paper"}},
      {{"--num_nodes", "2", "--codec", "ternary:sharing=max", "--scaler_sharing", "none"},
       {"--scaler_sharing none", "sharing=max"}},
      {{"--codec", "ternary:scope=model", "--scaler_scope", "layer"}, {"--scaler_scope layer", "scope=model"}},
      {{"--codec", "ternary:scope=block,block=64", "--block_size", "128"}, {"--block_size 128", "block=64"}},
      {{"--codec", "ternary:format=t5", "--ternary_format", "t2"}, {"--ternary_format t2", "format=t5"}},
      {{"--codec", "ternary:clip_factor=2.5", "--grad_bits", "16"},
       {"--codec ternary:clip_factor=2.5", "--grad_bits 16"}},
      // A rule uses the option's value, but the option still contradicts --codec.
      {{"--codec", "ternary:clip_factor=2.5", "--codec_for", "a=ternary", "--clip_factor", "1"},
       {"--clip_factor 1", "--codec ternary:clip_factor=2.5"}},
      // No codec uses the option's value.
      {{"--codec_for", "a=ternary:clip_factor=2.5", "--clip_factor", "1"},
       {"--clip_factor 1", "--codec_for a=ternary:clip_factor=2.5"}},
  });
  expect_accepted({
      {"--codec", "ternary:clip_factor=2.50", "--clip_factor", "2.5"},
      {"--codec", "ternary:clip_factor=100000", "--clip_factor", "1e5"},
      {"--codec", "ternary:clip_factor=2.5", "--grad_bits", "1"},
      {"--codec", "ternary:block=4096", "--scaler_scope", "block", "--block_size", "4096"},
      {"--codec", "ternary:format=t5", "--clip_factor", "2.5"},
      // A rule may override the option if other tensors use it.
      {"--grad_bits", "1", "--clip_factor", "2.5", "--codec_for", "conv*=ternary:clip_factor=0"},
  });
}

TEST(CompressionOptionChecks, OptionsThatOneOfSeveralTernariesTakesHaveAnEffect) {
  expect_accepted({
      {"--codec", "ternary:clip_factor=2.5,scaler=original"},
      {"--num_nodes", "2", "--codec", "ternary:clip_factor=2.5", "--clip_scope", "local"},
      {"--num_nodes", "2", "--codec", "ternary:clip_factor=2.5", "--clip_scope", "local", "--codec_for",
       "a=ternary:sharing=none"},
      {"--codec_for", "a=ternary:scope=block", "--block_size", "64"},
      {"--num_nodes", "2", "--codec", "ternary:sharing=none", "--codec_for", "a=ternary:sharing=max", "--exchange",
       "integer_sum", "--ternary_format", "t5"},
      {"--codec", "ternary:sharing=none"},  // no effect with one worker
  });
}

TEST(CompressionOptionChecks, CombinationsThatMakeSenseAreAccepted) {
  expect_accepted({
      {"--grad_bits", "1", "--num_nodes", "2", "--clip_factor", "2.5", "--scaler", "original", "--clip_scope", "local"},
      {"--grad_bits", "1", "--clip_factor", "2.5", "--scaler", "original"},
      // A lossy downlink changes the result, also with one worker.
      {"--grad_bits", "1", "--downlink_codec", "ternary"},
      {"--grad_bits", "16", "--downlink_codec", "bf16"},
      {"--grad_bits", "1", "--num_nodes", "2", "--exchange", "all_gather", "--downlink_codec", "ternary"},
      {"--grad_bits", "1", "--num_nodes", "2", "--exchange", "scatter_reduce", "--downlink_codec", "sums"},
      {"--grad_bits", "1", "--num_nodes", "2", "--exchange", "integer_sum", "--downlink_codec", "sums"},
      {"--grad_bits", "1", "--scaler_scope", "block", "--block_size", "64"},
      {"--grad_bits", "1", "--num_nodes", "2", "--scaler_sharing", "none", "--downlink_codec", "bf16"},
      {"--grad_bits", "1", "--num_nodes", "2", "--scaler_sharing", "mean", "--exchange", "integer_sum",
       "--downlink_codec", "ternary"},
      {"--grad_bits", "1", "--size_to_binarize", "0", "--quantize_logits", "--ternary_format", "tmask"},
      {"--grad_bits", "16", "--size_to_binarize", "100"},
      // Options take effect if one tensor has the codec.
      {"--num_nodes", "2", "--codec_for", "fc3/weights=ternary", "--clip_factor", "2.5", "--exchange", "integer_sum"},
      {"--num_nodes", "2", "--codec_for", "*=ternary", "--downlink_codec", "sums"},
      {"--grad_bits", "1", "--floating_grad_epoch", "2"},
      {"--grad_bits", "16", "--floating_grad_epoch", "20"},
      {"--codec_for", "*=bf16", "--floating_grad_epoch", "2"},
      // The original's scripts set it with all codecs.
      {"--floating_grad_epoch", "0"},
  });
}

TEST(CompressionOptionChecks, DrawnTernaryCodesWithErrorFeedbackAreNoted) {
  EXPECT_THAT(note_on_memory(accept({"--grad_bits", "1", "--error_feedback", "true"})), HasSubstr("rounding=nearest"));
  EXPECT_EQ(note_on_memory(accept({"--codec", "terngrad_ef"})), "");
  EXPECT_EQ(note_on_memory(accept({"--grad_bits", "1"})), "");
}

TEST(CompressionOptionChecks, CodecThatNoTensorUsesIsRefused) {
  Layout layout;
  layout.add("fc/weights", {100});
  layout.add("logits/weights", {10}, /*is_logits=*/true);
  const auto check = [&](const std::vector<std::string>& arguments) {
    const TrainOptions o = accept(arguments);
    check_codec_plan(o, CodecPlan(layout, exchange_options(o, 1, 1).codecs));
  };
  const std::vector<Refusal> refusals = {
      {{"--grad_bits", "1", "--codec_for", "*=fp32"}, {"--grad_bits 1", "ternary", "--codec_for"}},
      {{"--grad_bits", "1", "--clip_factor", "2.5", "--codec_for", "fc*=bf16"}, {"--grad_bits 1", "--quantize_logits"}},
      {{"--codec", "bf16", "--size_to_binarize", "101"}, {"--codec bf16", "--size_to_binarize"}},
      {{"--codec", "ternary:format=t5", "--codec_for", "*=ternary"}, {"--codec ternary:format=t5", "--codec_for"}},
  };
  for (const Refusal& refusal : refusals) {
    const std::string message = message_of<UsageError>([&] { check(refusal.arguments); });
    for (const std::string& words : refusal.said) EXPECT_THAT(message, HasSubstr(words));
  }
  EXPECT_NO_THROW(check({}));
  EXPECT_NO_THROW(check({"--grad_bits", "1"}));
  EXPECT_NO_THROW(check({"--grad_bits", "1", "--size_to_binarize", "100"}));
  EXPECT_NO_THROW(check({"--grad_bits", "1", "--quantize_logits", "--codec_for", "fc*=bf16"}));
  EXPECT_NO_THROW(check({"--codec_for", "*=ternary"}));
  EXPECT_NO_THROW(check({"--codec", "ternary:format=t5", "--codec_for", "*=ternary:format=t5"}));
}

TEST(CompressionOptionChecks, ScalersOfOneElementAreNoted) {
  Layout layout;
  layout.add("fc/weights", {100});
  layout.add("fc/gain", {1});
  layout.add("fc/biases", {65});
  const auto note = [&](std::vector<std::string> arguments) {
    for (const char* word : {"--grad_bits", "1", "--clip_factor", "2.5"}) arguments.emplace_back(word);
    return note_on_scalers(accept(arguments), layout);
  };
  EXPECT_THAT(note({"--scaler", "original"}), AllOf(HasSubstr("--scaler original"), HasSubstr("in fc/gain;")));
  EXPECT_THAT(note({"--scaler", "original", "--scaler_scope", "block", "--block_size", "64"}),
              HasSubstr("in fc/gain, fc/biases;"));
  EXPECT_THAT(note_on_scalers(accept({"--codec_for", "*/gain=ternary:clip_factor=2,scaler=original"}), layout),
              HasSubstr("in fc/gain;"));
  for (const std::vector<std::string>& arguments :
       std::vector<std::vector<std::string>>{{"--scaler", "paper"},
                                             {"--scaler", "original", "--scaler_scope", "model"},
                                             {"--scaler", "original", "--codec_for", "*/gain=fp32"},
                                             {"--scaler", "original", "--size_to_binarize", "2"}}) {
    EXPECT_EQ(note(arguments), "") << ::testing::PrintToString(arguments);
  }
  EXPECT_EQ(note_on_scalers(accept({}), layout), "");
}

}  // namespace
}  // namespace terngrad::compression_option_checks_test
