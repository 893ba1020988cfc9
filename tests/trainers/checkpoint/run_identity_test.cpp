#include "trainers/checkpoint/run_identity.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "kernels/runtime/errors.h"
#include "tests/trainers/temporary_directory.h"
#include "trainers/checkpoint/checkpoint.h"

namespace terngrad::run_identity_test {
namespace {

using ::testing::AllOf;
using ::testing::HasSubstr;
using testing::message_of;
using ::testing::Not;

std::string refusal(const RunIdentity& expected, const RunIdentity& recorded) {
  return message_of<UsageError>([&] { check_same_run(expected, recorded, "there"); });
}

TEST(RunIdentity, IsTheStateWithoutItsStep) {
  CheckpointState state;
  state.net = "lenet";
  state.seed = 7;
  state.extra_metadata["codec"] = "ternary";
  const RunIdentity identity = identity_of(state);
  EXPECT_EQ(identity.at("net"), "lenet");
  EXPECT_EQ(identity.at("seed"), "7");
  EXPECT_EQ(identity.at("codec"), "ternary");
  state.step = 9;
  EXPECT_EQ(identity_of(state), identity);
}

TEST(RunIdentity, DifferencesNameTheOptionWithBothValues) {
  EXPECT_THAT(refusal({{"clip_factor", "2"}}, {{"clip_factor", "0"}}),
              AllOf(HasSubstr("there"), HasSubstr("--clip_factor '2'"), HasSubstr("'0'")));
  EXPECT_THAT(refusal({{"num_workers", "2"}}, {{"num_workers", "4"}}), HasSubstr("--num_nodes '2'"));
  EXPECT_THAT(refusal({{"scaler", "paper"}}, {}), HasSubstr("(none)"));
  EXPECT_THAT(refusal({{"threads_per_worker", "1"}}, {{"threads_per_worker", "4"}}),
              HasSubstr("to continue the run, give --threads_per_worker 4"));
  EXPECT_NO_THROW(check_same_run({{"codec", "fp32"}}, {{"codec", "fp32"}, {"adam_updates", "3"}}, "there"));
}

TEST(RunIdentity, EntriesThatRunsBeforeHadNotAreWhatTheyAllWere) {
  const RunIdentity now = {
      {"strategy", kSynchronousStrategies}, {"pull", "any"}, {"exchange", "any but vendor"}, {"reduce", "average"}};
  EXPECT_NO_THROW(check_same_run(now, {}, "there"));
  for (const auto& [key, other] :
       RunIdentity{{"strategy", "async"}, {"pull", "rounded parameters"}, {"exchange", "vendor"}, {"reduce", "sum"}}) {
    EXPECT_THAT(refusal({{key, other}}, {}), HasSubstr("(none)")) << key;
    const std::string in_words = key == "pull" ? "parameters as bf16" : other;
    EXPECT_THAT(refusal({{key, now.at(key)}}, {{key, other}}), HasSubstr(in_words)) << key;
  }
  EXPECT_THAT(refusal({{"pull", "rounded parameters"}}, {{"pull", "any"}}),
              HasSubstr("to continue the run, give --pull gradient"));
  EXPECT_THAT(refusal({{"strategy", "async"}}, {{"strategy", kSynchronousStrategies}}),
              HasSubstr("'simple, replicated or ps'; to continue the run, give one of these"));
  EXPECT_THAT(refusal({{"strategy", kSynchronousStrategies}}, {{"strategy", "async"}}),
              HasSubstr("to continue the run, give --strategy async"));
  EXPECT_THAT(refusal({{"pull", "any"}}, {{"pull", "rounded parameters"}}), HasSubstr("--pull parameters"));
}

TEST(RunIdentity, ASpecIsComparedBehindTheOptionsThatSayTheSameIfBothHaveOne) {
  EXPECT_NO_THROW(check_same_run({{"codec_spec", "ternary:format=t5"}}, {{"codec", "ternary"}}, "there"));
  // Recorded before the codec had the key.
  EXPECT_NO_THROW(check_same_run({{"codec_spec", "ternary:format=t5,rounding=stochastic"}},
                                 {{"codec_spec", "ternary:format=t5"}}, "there"));
  EXPECT_THAT(refusal({{"codec_spec", "qsgd:bits=4"}}, {{"codec_spec", "qsgd:bits=2"}}),
              HasSubstr("this run has --codec 'qsgd:bits=4', there it is 'qsgd:bits=2'"));
  EXPECT_THAT(refusal({{"codec_spec", "ternary:format=t5"}, {"ternary_format", "t5"}},
                      {{"codec_spec", "ternary:format=t2"}, {"ternary_format", "t2"}}),
              HasSubstr("--ternary_format 't5'"));
  EXPECT_THAT(refusal({{"codec_spec", "a"}, {"exchange_fingerprint", "1"}},
                      {{"codec_spec", "b"}, {"exchange_fingerprint", "2"}}),
              HasSubstr("--codec 'a'"));
}

TEST(RunIdentity, RulesOfCodecsAreComparedByWhatTheyStandFor) {
  const std::string now = "conv*=qsgd:bits=4,norm=max,fc?=ternary:format=t5,rounding=stochastic,last=fp32";
  // Recorded before the codecs had all keys.
  EXPECT_NO_THROW(check_same_run({{"codec_for", now}},
                                 {{"codec_for", "conv*=qsgd:bits=4,fc?=ternary:format=t5,last=fp32"}}, "there"));
  for (const char* other :
       {"conv*=qsgd:bits=2,fc?=ternary:format=t5,last=fp32",
        "conv*=qsgd:bits=4,fc?=ternary:format=t5,rounding=nearest,last=fp32",
        "conv*=qsgd:bits=4,fc?=ternary:format=t5,last=bf16", "conv*=qsgd:bits=4,fc?=ternary:format=t5",
        "fc?=ternary:format=t5,conv*=qsgd:bits=4,last=fp32", "conv1=qsgd:bits=4,fc?=ternary:format=t5,last=fp32", ""}) {
    EXPECT_THAT(refusal({{"codec_for", now}}, {{"codec_for", other}}), HasSubstr("--codec_for")) << other;
  }
  EXPECT_THAT(refusal({{"codec_for", ""}}, {{"codec_for", "a=unknown:bits=4"}}), HasSubstr("--codec_for"));
  // A name alone takes the values of other options.
  EXPECT_THAT(refusal({{"codec_for", "a=ternary"}}, {{"codec_for", "a=ternary:format=t2"}}), HasSubstr("--codec_for"));
}

TEST(RunIdentity, FingerprintsAreComparedLast) {
  EXPECT_THAT(
      refusal({{"data_fingerprint", "a"}, {"num_examples", "3"}}, {{"data_fingerprint", "b"}, {"num_examples", "4"}}),
      AllOf(HasSubstr("num_examples"), HasSubstr("--data_dir"), Not(HasSubstr("fingerprint"))));
  EXPECT_THAT(refusal({{"exchange_fingerprint", "1"}, {"scaler", "paper"}},
                      {{"exchange_fingerprint", "2"}, {"scaler", "original"}}),
              HasSubstr("--scaler"));
  EXPECT_THAT(refusal({{"clip_factor", "1"}, {"net", "lenet"}}, {{"clip_factor", "2"}, {"net", "other"}}),
              HasSubstr("--net"));
}

TEST(RunIdentity, ARunThatWouldHaveStoppedMayGoOnWithAnotherPolicy) {
  EXPECT_NO_THROW(check_same_run({{"on_nonfinite", "skip"}}, {{"on_nonfinite", "stop"}}, "there"));
  EXPECT_THAT(refusal({{"on_nonfinite", "zero"}}, {{"on_nonfinite", "skip"}}), HasSubstr("--on_nonfinite 'zero'"));
  EXPECT_THAT(refusal({{"on_nonfinite", "stop"}}, {{"on_nonfinite", "skip"}}), HasSubstr("--on_nonfinite 'stop'"));
}

TEST(RunIdentity, AnotherNumberOfStepsMustBeAskedFor) {
  const RunIdentity recorded = {{"max_steps", "20"}};
  EXPECT_NO_THROW(check_same_run({{"max_steps", "30"}}, recorded, "there"));
  EXPECT_EQ(check_max_steps(recorded, 20, false), "");
  EXPECT_EQ(check_max_steps({}, 30, false), "");
  EXPECT_THAT(check_max_steps(recorded, 30, true), AllOf(HasSubstr("20"), HasSubstr("30")));
  EXPECT_THAT(message_of<UsageError>([&] { check_max_steps(recorded, 30, false); }),
              HasSubstr("--max_steps: the run had 20; give it again, or another number"));
}

}  // namespace
}  // namespace terngrad::run_identity_test
