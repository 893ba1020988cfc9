// In one process; tests/mpi/tools_test.py runs the command in several.
#include "trainers/commands/advise_command.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <nlohmann/json.hpp>
#include <string>
#include <vector>

#include "tests/trainers/command_runs.h"
#include "trainers/io/atomic_file.h"

namespace terngrad::advise_command_test {
namespace {

using testing::CommandOutcome;
using ::testing::HasSubstr;
using ::testing::Not;
using ::testing::StartsWith;
using testing::TemporaryDirectory;
using testing::operator+;

CommandOutcome advise(const std::vector<std::string>& arguments) {
  return testing::run_command("terngrad_advise", run_advise, arguments);
}

/// Runs terngrad_advise with a net that is quick to measure.
CommandOutcome advise_small(const std::vector<std::string>& more) {
  return advise(std::vector<std::string>{"--image_size", "8", "--threads", "1", "--repetitions", "1"} + more);
}

void expect_refused(const CommandOutcome& outcome, const std::vector<std::string>& words) {
  EXPECT_EQ(outcome.exit_code, kExitUsage) << ::testing::PrintToString(outcome);
  EXPECT_EQ(outcome.out, "");
  EXPECT_THAT(outcome.err, StartsWith("terngrad_advise: error: "));
  EXPECT_EQ(std::ranges::count(outcome.err, '\n'), 1) << outcome.err;
  for (const std::string& word : words) EXPECT_THAT(outcome.err, HasSubstr(word));
}

TEST(AdviseCommand, HelpAndVersionGoToStdout) {
  const CommandOutcome help = advise({"--help"});
  EXPECT_EQ(help.exit_code, kExitSuccess);
  EXPECT_THAT(help.out, HasSubstr("--bandwidth_mbit"));
  EXPECT_THAT(advise({"--version"}).out, StartsWith("terngrad_advise "));
}

TEST(AdviseCommand, SlowLinksWantTernary) {
  const TemporaryDirectory folder;
  const std::string file = (folder / "advice.json").string();
  const CommandOutcome outcome =
      advise_small({"--num_nodes", "4", "--bandwidth_mbit", "0.001", "--quantize_logits", "--json", file});
  ASSERT_EQ(outcome.exit_code, kExitSuccess) << ::testing::PrintToString(outcome);
  EXPECT_THAT(outcome.out, StartsWith("lenet: "));
  EXPECT_THAT(outcome.out, HasSubstr("4 workers, each in its own process\n"));
  EXPECT_THAT(outcome.out, HasSubstr("link of each process, as given: 0.0 Mbit/s, latency 50.0 us\n"));
  for (const char* codec : {"fp32", "bf16", "t2", "t5"}) {
    EXPECT_THAT(outcome.out, HasSubstr("\n" + std::string(codec) + " ")) << codec;
  }
  // Minutes of transfer against milliseconds of work: independent of the machine's load.
  EXPECT_THAT(outcome.out, HasSubstr("\nrecommendation: t5 "));
  const auto json = nlohmann::json::parse(read_file_text(file));
  EXPECT_EQ(json["recommended"], "t5");
  EXPECT_EQ(json["codecs"].size(), 4u);
  // 32 bits compared with about 2.
  const double fp32 = json["codecs"][0]["wire_bytes_per_process"];
  const double t2 = json["codecs"][2]["wire_bytes_per_process"];
  EXPECT_GT(fp32 / t2, 7);
}

TEST(AdviseCommand, ComparesTheCodecsThatAreNamed) {
  const CommandOutcome outcome = advise_small({"--num_nodes", "2", "--bandwidth_mbit", "0.001", "--compute_ms", "0",
                                               "--quantize_logits", "--codec", "ternary:format=t5", "--codec", "fp32"});
  ASSERT_EQ(outcome.exit_code, kExitSuccess) << ::testing::PrintToString(outcome);
  for (const char* row : {"\nfp32              ", "\nbf16              ", "\nternary:format=t5 "}) {
    EXPECT_THAT(outcome.out, HasSubstr(row));
  }
  EXPECT_THAT(outcome.out, Not(HasSubstr("\nt2")));
  EXPECT_THAT(outcome.out, HasSubstr("recommendation: ternary:format=t5 (--codec ternary:format=t5 --clip_factor 2.5 "
                                     "--quantize_logits): an exchange takes "));
  EXPECT_THAT(advise({"--list_codecs"}).out, HasSubstr("\nternary\n"));
}

TEST(AdviseCommand, StepsOfNetsCountAndAreOfTheBatchThatIsAskedFor) {
  const auto line = [](const std::vector<std::string>& more) {
    const CommandOutcome outcome = advise_small(std::vector<std::string>{"--bandwidth_mbit", "0.001"} + more);
    EXPECT_EQ(outcome.exit_code, kExitSuccess) << ::testing::PrintToString(outcome);
    EXPECT_THAT(outcome.out, HasSubstr("a step takes ")) << outcome.out;
    const auto begin = outcome.out.find("on CPUs a step computes");
    return outcome.out.substr(begin, outcome.out.find(" in ", begin) - begin);
  };
  EXPECT_EQ(line({"--num_nodes", "4"}), "on CPUs a step computes gradients of 64 examples");
  EXPECT_EQ(line({"--num_nodes", "3"}), "on CPUs a step computes gradients of 63 examples");
  EXPECT_EQ(line({"--num_nodes", "100"}), "on CPUs a step computes gradients of 100 examples");
  EXPECT_EQ(line({"--num_nodes", "4", "--batch_size", "8"}), "on CPUs a step computes gradients of 8 examples");
}

TEST(AdviseCommand, WhatAStepComputesMayBeSaid) {
  const std::vector<std::string> link = {"--num_nodes", "2", "--bandwidth_mbit", "0.001"};
  const CommandOutcome slow = advise_small(link + std::vector<std::string>{"--compute_ms", "1e12"});
  EXPECT_THAT(slow.out, HasSubstr("as given; exchanges come on top"));
  EXPECT_THAT(slow.out, HasSubstr("recommendation: do not compress (--grad_bits 32): a step takes "));
  const CommandOutcome exchanges = advise_small(link + std::vector<std::string>{"--compute_ms", "0"});
  EXPECT_THAT(exchanges.out, Not(HasSubstr("a step")));
  EXPECT_THAT(exchanges.out, HasSubstr("recommendation: t5 (--grad_bits 1 --ternary_format t5 --clip_factor 2.5): an "
                                       "exchange takes "));
  const CommandOutcome layout = advise({"--layout", "lenet", "--num_nodes", "2", "--bandwidth_mbit", "100", "--threads",
                                        "1", "--repetitions", "1", "--compute_ms", "5"});
  EXPECT_THAT(layout.out, HasSubstr("a step computes for 5.000 ms, as given"));
}

TEST(AdviseCommand, LatencyAloneIsNoReasonToCompress) {
  // Ten seconds per round decide: no codec needs fewer rounds.
  const CommandOutcome outcome =
      advise_small({"--num_nodes", "2", "--bandwidth_mbit", "1000000", "--latency_us", "1e7"});
  ASSERT_EQ(outcome.exit_code, kExitSuccess) << ::testing::PrintToString(outcome);
  EXPECT_THAT(outcome.out, HasSubstr("\nrecommendation: do not compress (--grad_bits 32): "));
}

TEST(AdviseCommand, NetsHaveTheDataSetsShapeUnlessSaid) {
  const auto first_line = [](const std::vector<std::string>& more) {
    const CommandOutcome outcome =
        advise_small(std::vector<std::string>{"--num_nodes", "2", "--bandwidth_mbit", "100"} + more);
    EXPECT_EQ(outcome.exit_code, kExitSuccess) << ::testing::PrintToString(outcome);
    return outcome.out.substr(0, outcome.out.find(','));
  };
  // conv1 5 x 5 x 1 x 20 + 20, conv2 5 x 5 x 20 x 50 + 50, fc3 2 x 2 x 50 x 500 + 500, logits 500 x 10 + 10.
  EXPECT_EQ(first_line({}), "lenet: 131080 elements in 8 tensors");
  EXPECT_EQ(first_line({"--channels", "3", "--num_classes", "7"}), "lenet: 130577 elements in 8 tensors");
  EXPECT_THAT(first_line({"--dataset", "cifar10"}), StartsWith("cifar10_alexnet: "));
  EXPECT_THAT(first_line({"--dataset", "cifar10", "--net", "lenet"}), StartsWith("lenet: 132080 "));
}

TEST(AdviseCommand, AWholeModelTakesAName) {
  const CommandOutcome outcome = advise(
      {"--layout", "lenet", "--num_nodes", "2", "--bandwidth_mbit", "100", "--threads", "1", "--repetitions", "1"});
  ASSERT_EQ(outcome.exit_code, kExitSuccess) << ::testing::PrintToString(outcome);
  EXPECT_THAT(outcome.out, StartsWith("lenet: 1256080 elements in 8 tensors, 2 workers"));
  EXPECT_THAT(outcome.out, Not(HasSubstr("a step")));
}

TEST(AdviseCommand, RefusesWhatItCannotHonour) {
  expect_refused(advise_small({"--bandwidth_mbit", "100"}), {"--num_nodes 0", "2 or more"});
}

TEST(AdviseCommand, SaysOnStderrWhatItMeasures) {
  const std::vector<std::string> two = {"--num_nodes", "2", "--bandwidth_mbit", "100"};
  const CommandOutcome net = advise_small(two);
  EXPECT_EQ(net.err,
            "measuring what a step computes\nmeasuring fp32 by all_gather (1 of 4)\nmeasuring bf16 by all_gather (2 of "
            "4)\nmeasuring t2 by all_gather (3 of 4)\nmeasuring t5 by all_gather (4 of 4)\n");
  EXPECT_THAT(net.out, Not(HasSubstr("measuring")));
  const CommandOutcome given = advise_small(two + std::vector<std::string>{"--compute_ms", "5"});
  EXPECT_THAT(given.err, StartsWith("measuring fp32 by all_gather (1 of 4)\n"));
}

TEST(AdviseCommand, AFileThatCannotBeWrittenIsRefusedBeforeAnyWork) {
  const TemporaryDirectory folder;
  const std::vector<std::string> two = {"--num_nodes", "2", "--bandwidth_mbit", "100"};
  const std::string nowhere = (folder / "nowhere" / "advice.json").string();
  expect_refused(advise_small(two + std::vector<std::string>{"--json", nowhere}), {"--json " + nowhere, "No such"});
  expect_refused(advise_small(two + std::vector<std::string>{"--json", folder.path().string()}),
                 {"--json", "Is a directory"});
}

}  // namespace
}  // namespace terngrad::advise_command_test
