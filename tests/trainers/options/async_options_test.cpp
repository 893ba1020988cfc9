#include "trainers/options/async_options.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <string>
#include <vector>

#include "kernels/runtime/errors.h"
#include "tests/trainers/checked_options.h"
#include "tests/trainers/temporary_directory.h"

namespace terngrad::async_options_test {
namespace {

using ::testing::AllOf;
using ::testing::HasSubstr;
using testing::message_of;

/// Parses and checks a command line as terngrad_train does, as one of `num_processes` processes.
TrainOptions accept(const std::vector<std::string>& arguments, int num_processes = 1) {
  TrainOptions o;
  OptionSet options("test");
  testing::parse(options, o, arguments);
  apply_async_defaults(options, o);
  apply_launch(o, {.rank = 0, .num_processes = num_processes, .num_sharing = 1});
  check_train_options(options, o);
  apply_async_launch(o);
  return o;
}

std::vector<std::string> async(std::vector<std::string> more) {
  more.insert(more.begin(), {"--strategy", "async", "--num_nodes", "4", "--grad_bits", "1", "--device", "cpu"});
  return more;
}

std::string refuse(const std::vector<std::string>& arguments, int num_processes = 1) {
  SCOPED_TRACE(::testing::PrintToString(arguments));
  return message_of<UsageError>([&] { accept(arguments, num_processes); });
}

TEST(AsyncOptions, ScalersAreEachWorkersOwnByDefault) {
  EXPECT_EQ(accept(async({})).scaler_sharing, "none");
  EXPECT_EQ(accept(async({"--scaler_sharing", "none"})).scaler_sharing, "none");
  EXPECT_EQ(accept({"--num_nodes", "4", "--grad_bits", "1", "--device", "cpu"}).scaler_sharing, "max");
}

TEST(AsyncOptions, TheScaleIsOneOverTheWorkersByDefault) {
  EXPECT_EQ(async_scale(accept(async({}))), 0.25f);
  EXPECT_EQ(async_scale(accept(async({"--async_scale", "0.1"}))), 0.1f);
  EXPECT_EQ(accept(async({})).max_staleness, -1);
  EXPECT_NE(async_settings(accept(async({}))), async_settings(accept(async({"--max_staleness", "0"}))));
}

TEST(AsyncOptions, WhatItDoesNotGoWithIsRefusedByName) {
  struct Case {
    std::vector<std::string> arguments;
    std::vector<std::string> words;
  };
  const std::vector<Case> cases = {
      {{"--scaler_sharing", "max"}, {"--scaler_sharing max", "accepted: none"}},
      {{"--scaler_sharing", "mean"}, {"--scaler_sharing mean", "accepted: none"}},
      {{"--codec", "ternary:sharing=max"}, {"--codec ternary:sharing=max", "accepted: sharing=none"}},
      {{"--codec", "ternary:levels=asymmetric,sharing=max"},
       {"--codec ternary:levels=asymmetric,sharing=max", "accepted: sharing=none"}},
      {{"--codec_for", "*=ternary:sharing=mean"}, {"--codec_for *=ternary:sharing=mean", "accepted: sharing=none"}},
      {{"--exchange", "all_gather"}, {"--exchange all_gather", "accepted here: auto"}},
      {{"--exchange", "integer_sum"}, {"--exchange integer_sum"}},
      {{"--codec_for", "*=sign:reduce=vote"}, {"--codec_for *=sign:reduce=vote", "accepted: reduce=mean"}},
      {{"--downlink_codec", "sums"}, {"--downlink_codec sums", "fp32, bf16"}},
      {{"--downlink_codec", "ternary"}, {"--downlink_codec ternary", "fp32, bf16"}},
      {{"--reduce", "sum"}, {"--reduce sum", "--async_scale 1"}},
      {{"--floating_grad_epoch", "2"}, {"--floating_grad_epoch 2", "accepted here: 0"}},
      {{"--compress_from", "2"}, {"--compress_from 2", "accepted here: 0"}},
      {{"--overlap", "on"}, {"--overlap on", "--strategy replicated"}},
      {{"--bucket_mb", "1"}, {"--bucket_mb", "--strategy replicated"}},
      {{"--num_servers", "1"}, {"--num_servers", "--strategy ps"}},
      {{"--pull", "parameters"}, {"--pull", "--strategy ps"}},
      {{"--max_staleness", "-2"}, {"--max_staleness", "at least -1"}},
      {{"--async_scale", "-1"}, {"--async_scale", "at least 0"}},
  };
  for (const Case& c : cases) {
    const std::string message = refuse(async(c.arguments));
    for (const std::string& word : c.words) EXPECT_THAT(message, HasSubstr(word));
  }
  EXPECT_THAT(refuse({"--strategy", "async", "--exchange", "vendor", "--num_nodes", "4", "--device", "cpu"}),
              HasSubstr("--exchange vendor"));
}

TEST(AsyncOptions, OthersDoNotTakeItsOptions) {
  for (const char* name : {"--async_scale", "--max_staleness"}) {
    for (const char* strategy : {"auto", "replicated", "ps"}) {
      EXPECT_THAT(refuse({"--num_nodes", "2", "--device", "cpu", "--strategy", strategy, name, "1"}),
                  AllOf(HasSubstr(name), HasSubstr("--strategy async")));
    }
  }
}

TEST(AsyncOptions, OneProcessServesAndTheOthersHaveWorkers) {
  EXPECT_EQ(accept(async({}), 5).num_nodes, 4);
  EXPECT_THAT(refuse(async({}), 6), HasSubstr("each of the 5 training processes needs a worker; accepted: 5 or more"));
  EXPECT_EQ(accept(async({"--last_rank_evaluates"}), 6).num_nodes, 4);
  EXPECT_THAT(refuse(async({"--num_servers", "1"}), 3), AllOf(HasSubstr("--num_servers"), HasSubstr("--strategy ps")));
  EXPECT_THAT(refuse(async({"--check_replicas", "1"}), 3), HasSubstr("--check_replicas"));
  EXPECT_THAT(refuse(async({"--trace_steps", "2"}), 1), HasSubstr("--trace_steps"));
  EXPECT_THAT(refuse(async({"--dataset", "mnist", "--data_dir", "d", "--data_shards"}), 3), HasSubstr("--data_shards"));
  EXPECT_THAT(refuse(async({"--rebroadcast_epochs", "1"}), 3), HasSubstr("--rebroadcast_epochs"));
}

TEST(AsyncOptions, NothingIsReportedOfOtherProcessesGradients) {
  EXPECT_EQ(accept(async({}), 3).telemetry_steps, 0);
  EXPECT_EQ(accept(async({}), 3).histogram_steps, 0);
  EXPECT_GT(accept(async({}), 1).telemetry_steps, 0);
  for (const std::vector<std::string>& option : {std::vector<std::string>{"--telemetry_steps", "10"},
                                                 {"--histogram_steps", "10"},
                                                 {"--profile"},
                                                 {"--dump_gradients", "10"}}) {
    EXPECT_THAT(refuse(async(option), 3), AllOf(HasSubstr(option[0]), HasSubstr("one process")));
    EXPECT_NO_THROW(accept(async(option), 1));
  }
}

}  // namespace
}  // namespace terngrad::async_options_test
