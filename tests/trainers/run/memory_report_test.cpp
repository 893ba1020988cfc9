#include "trainers/run/memory_report.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <malloc.h>

#include <cstring>
#include <filesystem>
#include <limits>
#include <regex>
#include <string>
#include <vector>

#include "kernels/runtime/buffer.h"
#include "tests/trainers/train_runs.h"
#include "trainers/run/memory_limit.h"

namespace terngrad::memory_report_test {
namespace {

namespace fs = std::filesystem;
using ::testing::AllOf;
using testing::CommandOutcome;
using testing::expect_usage_error;
using ::testing::HasSubstr;
using ::testing::Not;
using testing::SmallMnist;
using testing::TemporaryDirectory;
using testing::train;
using testing::operator+;

TEST(MemoryTable, HasALineForEachProcess) {
  const std::vector<MemoryStages> of_processes = {
      {.program = 2e6, .data = 5e6, .setup = 1.5e6, .steps = 3e6, .peak = 12e6},
      {.program = 2e6, .data = 0, .setup = 1e6, .steps = 3e6, .peak = 8e6}};
  EXPECT_EQ(memory_table(of_processes, {.bytes = 8e9, .subject = "this machine"}),
            "resident host memory in MB (10^6 bytes), measured in the run's first steps\n"
            "process      program + training set     + set up + first steps         peak\n"
            "      0         2.00           5.00         1.50          3.00        12.00\n"
            "      1         2.00           0.00         1.00          3.00         8.00\n"
            "all 2 processes together 20.00 MB\n"
            "not measured: evaluations, checkpoints being read and written\n"
            "this machine has 8000.00 MB\n");
}

TEST(MemoryTable, SaysNothingOfALimitThatNobodyKnows) {
  const std::vector<MemoryStages> of_processes = {{.program = 2e6}};
  EXPECT_THAT(memory_table(of_processes, {.bytes = std::numeric_limits<double>::infinity(), .subject = "this machine"}),
              AllOf(Not(HasSubstr("this machine")), Not(HasSubstr("together"))));
}

TEST(ResidentBytes, GrowWithMemoryThatIsTouched) {
  const double before = resident_bytes();
  Buffer<char> buffer(std::int64_t{64} << 20);
  std::memset(buffer.data(), 1, static_cast<std::size_t>(buffer.num_elements()));
  EXPECT_GT(resident_bytes() - before, 60e6);
}

/// A run with --memory, which does not use memory that earlier tests have freed.
CommandOutcome measured(const std::vector<std::string>& arguments) {
  ::malloc_trim(0);
  return train(arguments);
}

/// Memory growth of one process during setup, as printed by --memory.
double setup_megabytes(const std::string& out) {
  std::smatch found;
  if (!std::regex_search(out, found, std::regex(R"(\n +0 +\S+ +\S+ +(\S+) )"))) return 0;
  return std::stod(found.str(1));
}

TEST(TrainCommand, MemoryIsPrintedAndNothingWritten) {
  const SmallMnist mnist;
  const TemporaryDirectory folder;
  const std::vector<std::string> options =
      mnist.options(folder / "run") + std::vector<std::string>{"--memory", "--device", "cpu", "--batch_size", "32"};
  const CommandOutcome two = measured(options + std::vector<std::string>{"--num_nodes", "2"});
  EXPECT_EQ(two.exit_code, kExitSuccess) << ::testing::PrintToString(two);
  EXPECT_EQ(two.err, "");
  EXPECT_FALSE(fs::exists(folder / "run"));
  // LeNet's gradient has 1.7 MB.
  const CommandOutcome many = measured(options + std::vector<std::string>{"--num_nodes", "32"});
  EXPECT_GT(setup_megabytes(many.out), setup_megabytes(two.out) + 40) << two.out << many.out;
  expect_usage_error(train({"--memory", "--memory=true", "--max_steps", "-1"}), {"--max_steps"});
}

TEST(TrainCommand, MemoryOfARunThatServersUpdateAndOfAnAsynchronousOne) {
  const SmallMnist mnist;
  const TemporaryDirectory folder;
  for (const std::vector<std::string>& strategy :
       {std::vector<std::string>{"--strategy", "ps", "--pull", "parameters"}, {"--strategy", "async"}}) {
    const CommandOutcome outcome = measured(
        mnist.options(folder / "run") +
        std::vector<std::string>{"--memory", "--device", "cpu", "--num_nodes", "2", "--grad_bits", "1"} + strategy);
    EXPECT_EQ(outcome.exit_code, kExitSuccess) << ::testing::PrintToString(outcome);
    EXPECT_GT(setup_megabytes(outcome.out), 0) << outcome.out;
  }
}

}  // namespace
}  // namespace terngrad::memory_report_test
