#include "trainers/options/train_option_groups.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <string>
#include <vector>

#include "tests/trainers/checked_options.h"
#include "tests/trainers/identity_entries.h"

namespace terngrad::worker_options_test {
namespace {

using testing::expect_refused;
using ::testing::HasSubstr;
using testing::resume_refusal;

TEST(WorkerOptions, OptionsWithoutEffectAreRefused) {
  expect_refused({
      {{"--num_servers", "1"}, {"--num_servers", "--strategy ps"}},
      {{"--pull", "parameters", "--num_nodes", "2"}, {"--pull", "--strategy ps"}},
      {{"--exchange", "all_gather"}, {"--exchange", "--strategy replicated"}},
      {{"--downlink_codec", "bf16"}, {"--downlink_codec", "--strategy replicated"}},
      {{"--workers_per_group", "2"}, {"--workers_per_group", "--strategy replicated"}},
      {{"--num_nodes", "4", "--workers_per_group", "2", "--strategy", "ps"}, {"--workers_per_group", "replicated"}},
      {{"--num_nodes", "4", "--workers_per_group", "2", "--exchange", "vendor"}, {"--workers_per_group", "vendor"}},
      {{"--num_nodes", "4", "--workers_per_group", "2", "--dump_messages", "d"}, {"--workers_per_group 1"}},
      {{"--num_nodes", "4", "--workers_per_group", "3"}, {"--workers_per_group 3", "must divide the 4 workers"}},
      {{"--num_nodes", "4", "--workers_per_group", "4"}, {"--workers_per_group 4", "two groups or more"}},
      {{"--bucket_mb", "1"}, {"--bucket_mb", "--strategy replicated"}},
      {{"--overlap", "on"}, {"--overlap on", "--strategy replicated", "accepted here: auto"}},
      {{"--grad_bits", "1", "--scaler_scope", "model", "--bucket_mb", "1"}, {"--bucket_mb", "--scaler_scope"}},
      {{"--grad_bits", "1", "--scaler_scope", "model", "--overlap", "on"},
       {"--overlap on", "--scaler_scope", "accepted here: auto"}},
      {{"--num_nodes", "2", "--clip_by_global_norm", "1", "--bucket_mb", "1"},
       {"--bucket_mb", "--clip_by_global_norm"}},
      {{"--num_nodes", "2", "--clip_by_global_norm", "1", "--overlap", "on"},
       {"--overlap on", "--clip_by_global_norm", "accepted here: auto"}},
  });
}

TEST(WorkerOptions, ARunWithOtherBitsIsRefused) {
  EXPECT_EQ(resume_refusal({"--num_nodes", "2"}, {"--num_nodes", "2"}), "");
  const std::vector<std::vector<std::string>> others = {
      {"--num_nodes", "2", "--reduce", "sum"},
      {"--num_nodes", "2", "--exchange", "vendor"},
      {"--num_nodes", "2", "--strategy", "ps", "--pull", "parameters", "--downlink_codec", "bf16"}};
  for (const std::vector<std::string>& other : others) {
    EXPECT_THAT(resume_refusal(other, {"--num_nodes", "2"}), HasSubstr("cannot continue"));
    EXPECT_EQ(resume_refusal(other, other), "");
  }
}

TEST(WorkerOptions, ADifferenceSaysWhatToGive) {
  const std::vector<std::string> replicated = {"--num_nodes", "2"};
  const std::vector<std::string> async = {"--num_nodes", "2", "--strategy", "async"};
  std::vector<std::string> served = {"--num_nodes", "2", "--strategy", "ps", "--pull", "parameters"};
  EXPECT_EQ(resume_refusal(served, replicated), "") << "parameters as fp32 are the same bits";
  EXPECT_THAT(resume_refusal(async, replicated),
              HasSubstr("--strategy 'async', there it is 'simple, replicated or ps'; to continue the run, give one of "
                        "these"));
  EXPECT_THAT(resume_refusal(replicated, async), HasSubstr("to continue the run, give --strategy async"));
  served.insert(served.end(), {"--downlink_codec", "bf16"});
  std::vector<std::string> rounded = replicated;
  rounded.insert(rounded.end(), {"--downlink_codec", "bf16"});
  EXPECT_THAT(resume_refusal(served, rounded),
              HasSubstr("--pull 'parameters as bf16', there it is 'gradient, or parameters as fp32'; to continue the "
                        "run, give --pull gradient, or --downlink_codec fp32"));
  EXPECT_THAT(resume_refusal(rounded, served),
              HasSubstr("to continue the run, give --strategy ps --pull parameters and its --downlink_codec"));
  EXPECT_THAT(resume_refusal({"--num_nodes", "4"}, replicated), HasSubstr("this run has --num_nodes '4'"));
}

TEST(WorkerOptions, ARunThatWouldHaveStoppedMayContinueWithAnotherPolicy) {
  EXPECT_EQ(resume_refusal({"--on_nonfinite", "skip"}, {}), "");
  EXPECT_THAT(resume_refusal({"--on_nonfinite", "zero"}, {"--on_nonfinite", "skip"}),
              HasSubstr("--on_nonfinite 'zero'"));
  EXPECT_THAT(resume_refusal({}, {"--on_nonfinite", "skip"}), HasSubstr("--on_nonfinite 'stop'"));
}

TEST(WorkerOptions, OthersThanThoseOfTheResultMayChange) {
  EXPECT_EQ(resume_refusal({"--num_nodes", "2", "--exchange", "all_gather", "--overlap", "on", "--bucket_mb", "2"},
                           {"--num_nodes", "2", "--strategy", "ps"}),
            "");
}

}  // namespace
}  // namespace terngrad::worker_options_test
