#include "trainers/commands/advise_options.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <string>
#include <vector>

#include "kernels/runtime/errors.h"
#include "tests/trainers/train_runs.h"
#include "trainers/command_line/option_set.h"

namespace terngrad::advise_options_test {
namespace {

using ::testing::HasSubstr;
using testing::operator+;
using Words = std::vector<std::string>;

AdviseOptions parse(const Words& arguments, const Words& host_of_rank = {"here"}) {
  AdviseOptions o;
  OptionSet options("terngrad_advise");
  declare_advise_options(options, o);
  std::vector<const char*> argv = {"terngrad_advise"};
  for (const std::string& argument : arguments) argv.push_back(argument.c_str());
  options.parse(static_cast<int>(argv.size()), argv.data());
  check_advise_options(options, o, host_of_rank);
  return o;
}

void expect_refused(const Words& arguments, const Words& words, const Words& host_of_rank = {"here"}) {
  try {
    parse(arguments, host_of_rank);
    ADD_FAILURE() << ::testing::PrintToString(arguments) << " was accepted";
  } catch (const UsageError& error) {
    for (const std::string& word : words) EXPECT_THAT(error.what(), HasSubstr(word));
  }
}

TEST(AdviseOptions, AWorkerForEachProcessIsTheDefault) {
  EXPECT_EQ(parse({}, {"a", "b", "c"}).num_nodes, 3);
  EXPECT_EQ(parse({"--num_nodes", "5"}, {"a", "b", "c"}).num_nodes, 5);
}

TEST(AdviseOptions, GroupsAreTheWorkersOfAHostByDefault) {
  const Words hosts = {"a", "a", "b", "b"};
  EXPECT_EQ(parse({}, hosts).workers_per_group, 2);
  EXPECT_EQ(parse({"--num_nodes", "8"}, hosts).workers_per_group, 4);
  EXPECT_EQ(parse({"--num_nodes", "8", "--workers_per_group", "2"}, hosts).workers_per_group, 2);
  EXPECT_EQ(parse({"--workers_per_group", "1"}, hosts).workers_per_group, 1);
  EXPECT_EQ(parse({}, {"a", "b"}).workers_per_group, 1);
  EXPECT_EQ(parse({}, {"a", "a", "a"}).workers_per_group, 1);
}

TEST(AdviseOptions, GroupsThatDoNotFitAreRefused) {
  const Words hosts = {"a", "b"};
  expect_refused({"--num_nodes", "4", "--workers_per_group", "3"}, {"--workers_per_group 3", "divide the 4 workers"},
                 hosts);
  expect_refused({"--num_nodes", "8", "--workers_per_group", "2"}, {"--workers_per_group 2", "several groups"}, hosts);
  expect_refused({"--num_nodes", "2", "--bandwidth_mbit", "100", "--workers_per_group", "2"},
                 {"--workers_per_group 2", "several processes"});
}

TEST(AdviseOptions, RefusesWhatItCannotHonour) {
  expect_refused({"--bandwidth_mbit", "100"}, {"--num_nodes 0", "2 or more"});
  expect_refused({"--bandwidth_mbit", "100", "--num_nodes", "1"}, {"--num_nodes 1", "2 or more"});
  expect_refused({"--num_nodes", "2"}, {"--bandwidth_mbit 0", "above 0", "mpirun"});
  const Words link = {"--num_nodes", "2", "--bandwidth_mbit", "100"};
  expect_refused(link + Words{"--exchange_timeout", "5"}, {"--exchange_timeout"});
  expect_refused(link + Words{"--layout", "alexnet", "--net", "lenet"}, {"--net", "--layout"});
  expect_refused(link + Words{"--layout", "alexnet", "--batch_size", "64"}, {"--batch_size", "--layout"});
  expect_refused(link + Words{"--compute_ms", "-0.5"}, {"--compute_ms -0.5", "-1"});
  expect_refused(link + Words{"--codec", "fp16"}, {"--codec fp16", "bf16, ternary", "t2, t5"});
  expect_refused(link + Words{"--codec", "ternary:clip_factor=1", "--clip_factor", "2"},
                 {"--clip_factor 2", "clip_factor=1", "--codec ternary:clip_factor=1"});
  expect_refused(link + Words{"--codec", "bf16", "--clip_factor", "2"}, {"--clip_factor 2"});
  expect_refused(link + Words{"--compute_ms", "1", "--batch_size", "64"}, {"--batch_size", "--compute_ms"});
  expect_refused(link + Words{"--batch_size", "65"}, {"--batch_size 65", "--num_nodes 2"});
  expect_refused(link + Words{"--layout", "resnet"}, {"--layout", "alexnet"});
  expect_refused(link + Words{"--num_classes", "1048577"}, {"--num_classes"});
  expect_refused(link + Words{"--dataset", "folder"}, {"--dataset", "cifar10"});
}

}  // namespace
}  // namespace terngrad::advise_options_test
