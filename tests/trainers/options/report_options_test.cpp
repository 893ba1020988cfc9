#include "trainers/options/train_option_groups.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <string>
#include <vector>

#include "tests/trainers/checked_options.h"
#include "tests/trainers/identity_entries.h"
#include "trainers/command_line/option_list.h"

namespace terngrad::report_options_test {
namespace {

using testing::expect_accepted;
using testing::expect_refused;

TEST(ReportOptions, WhatReportsNothingIsRefused) {
  expect_refused({
      {{"--trace_steps", "2", "--num_nodes", "2", "--strategy", "async"}, {"--trace_steps 2", "replicated or ps"}},
      {{"--benchmark_mode", "--eval_steps", "3"}, {"--eval_steps 3", "without --benchmark_mode"}},
      {{"--dump_steps", "3"}, {"--dump_steps 3", "--dump_messages with the name of a folder"}},
      {{"--max_steps", "5", "--dump_gradients", "6"}, {"--dump_gradients 6", "--max_steps is 5"}},
  });
  expect_accepted({{"--trace_steps", "2", "--profile"}, {"--max_steps", "5", "--dump_gradients", "5"}});
}

TEST(ReportOptions, NoneIsPartOfTheIdentity) {
  TrainOptions o;
  OptionSet options("test");
  declare_report_options(options, o);
  EXPECT_TRUE(options.identity().empty());
  for (const OptionDescription& option : options.descriptions()) EXPECT_FALSE(option.is_compared) << option.name;
}

}  // namespace
}  // namespace terngrad::report_options_test
