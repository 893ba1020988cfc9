// In one process; tests/mpi runs commands in several.
#include "trainers/commands/launched_command.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <string>
#include <vector>

#include "kernels/runtime/device.h"
#include "kernels/runtime/errors.h"
#include "tests/trainers/command_runs.h"

namespace terngrad::launched_command_test {
namespace {

using testing::CommandOutcome;
using ::testing::HasSubstr;
using ::testing::StartsWith;

struct Calls {
  int checks = 0;
  int runs = 0;
  int number = 1;
};

CommandOutcome run(Calls& calls, const std::vector<std::string>& arguments) {
  const auto command = [&](int argc, char** argv) {
    OptionSet options("the_command: does nothing");
    options.add("number", &calls.number, "a number", at_least(1));
    options.add_question("list_numbers", "print some numbers", [](int) { return "1 2 3\n"; });
    return run_launched_command("the_command", options, argc, argv,
                                {.check =
                                     [&](const ProcessGroup& processes) {
                                       ++calls.checks;
                                       EXPECT_TRUE(processes.is_alone());
                                       if (calls.number == 13) throw UsageError("--number 13: brings bad luck");
                                     },
                                 .run =
                                     [&](ProcessGroup&) {
                                       ++calls.runs;
                                       return calls.number;
                                     }});
  };
  return testing::run_command("the_command", command, arguments);
}

TEST(LaunchedCommand, ChecksAndRuns) {
  Calls calls;
  EXPECT_EQ(run(calls, {"--number", "7"}).exit_code, 7);
  EXPECT_EQ(calls.checks, 1);
  EXPECT_EQ(calls.runs, 1);
}

TEST(LaunchedCommand, WhatIsRefusedDoesNotRun) {
  for (const char* number : {"0", "13"}) {
    Calls calls;
    const CommandOutcome outcome = run(calls, {"--number", number});
    EXPECT_EQ(outcome.exit_code, kExitUsage);
    EXPECT_THAT(outcome.err, StartsWith("the_command: error: --number"));
    EXPECT_EQ(calls.runs, 0);
  }
}

TEST(LaunchedCommand, HelpAndVersionAreAllThatHappens) {
  Calls calls;
  const CommandOutcome help = run(calls, {"--help"});
  EXPECT_EQ(help.exit_code, kExitSuccess);
  EXPECT_THAT(help.out, HasSubstr("--number"));
  const CommandOutcome version = run(calls, {"--version"});
  EXPECT_EQ(version.exit_code, kExitSuccess);
  EXPECT_THAT(version.out, StartsWith("the_command "));
  const CommandOutcome list = run(calls, {"--list_numbers"});
  EXPECT_EQ(list.exit_code, kExitSuccess);
  EXPECT_EQ(list.out, "1 2 3\n");
  EXPECT_EQ(calls.checks + calls.runs, 0);
}

TEST(ThreadsOfProcess, AreAllOfTheMachineUnlessSaid) {
  const ProcessGroup processes;
  EXPECT_EQ(threads_of_process(3, processes), 3);
  EXPECT_EQ(threads_of_process(0, processes), num_hardware_threads());
}

}  // namespace
}  // namespace terngrad::launched_command_test
