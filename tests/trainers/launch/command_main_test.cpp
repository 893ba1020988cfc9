#include "trainers/launch/command_main.h"

#include <gtest/gtest.h>
#include <unistd.h>

#include <array>
#include <cstdio>
#include <cstdlib>
#include <iostream>
#include <new>
#include <stdexcept>
#include <string>

#include "kernels/runtime/errors.h"

namespace terngrad::command_main_test {
namespace {

struct Outcome {
  int exit_code;
  std::string stderr_text;
};

Outcome outcome_of(const std::function<int(int, char**)>& run) {
  ::testing::internal::CaptureStderr();
  char program[] = "program";
  char* arguments[] = {program, nullptr};
  const int exit_code = command_main("terngrad_train", 1, arguments, run);
  return {exit_code, ::testing::internal::GetCapturedStderr()};
}

TEST(CommandMain, ReturnsWhatRunReturns) {
  const Outcome outcome = outcome_of([](int argc, char** argv) { return argc == 1 && argv[1] == nullptr ? 0 : 9; });
  EXPECT_EQ(outcome.exit_code, kExitSuccess);
  EXPECT_EQ(outcome.stderr_text, "");
  EXPECT_EQ(outcome_of([](int, char**) { return 7; }).exit_code, 7);
}

TEST(CommandMain, UsageErrorsExit2) {
  const Outcome outcome = outcome_of([](int, char**) -> int { throw UsageError("--x: no"); });
  EXPECT_EQ(outcome.exit_code, kExitUsage);
  EXPECT_EQ(outcome.stderr_text, "terngrad_train: error: --x: no\n");
}

TEST(CommandMain, OtherErrorsExit1InOneLine) {
  const Outcome outcome = outcome_of([](int, char**) -> int { throw DataError("a\nb"); });
  EXPECT_EQ(outcome.exit_code, kExitFailure);
  EXPECT_EQ(outcome.stderr_text, "terngrad_train: error: a b\n");
  EXPECT_EQ(outcome_of([](int, char**) -> int { throw std::logic_error("x"); }).exit_code, kExitFailure);
  EXPECT_EQ(outcome_of([](int, char**) -> int { throw std::bad_alloc(); }).stderr_text,
            "terngrad_train: error: out of memory\n");
  EXPECT_EQ(outcome_of([](int, char**) -> int { throw 3; }).exit_code, kExitFailure);
}

TEST(CommandMain, ErrorsHoldNothingThatATerminalActsOn) {
  const Outcome outcome = outcome_of([](int, char**) -> int { throw DataError("'\x1b[2J\xff\nö'"); });
  EXPECT_EQ(outcome.stderr_text, "terngrad_train: error: '\\x1b[2J\\xff ö'\n");
}

// Exits with the code of a command whose output goes to a full disk.
[[noreturn]] void run_with_full_stdout() {
  if (std::freopen("/dev/full", "w", stdout) == nullptr) std::_Exit(99);
  char program[] = "program";
  char* arguments[] = {program, nullptr};
  std::_Exit(command_main("terngrad_eval", 1, arguments, [](int, char**) {
    std::puts("top-1 = 1.0");
    return 0;
  }));
}

TEST(CommandMainDeathTest, UnwritableOutputIsAFailure) {
  ::testing::GTEST_FLAG(death_test_style) = "threadsafe";
  EXPECT_EXIT(run_with_full_stdout(), ::testing::ExitedWithCode(kExitFailure),
              "terngrad_eval: error: cannot write to the standard output");
}

// Exits with the code of a command that writes to a pipe without a reader.
[[noreturn]] void run_without_a_reader() {
  std::array<int, 2> ends = {};
  if (::pipe(ends.data()) != 0 || ::dup2(ends[1], STDOUT_FILENO) < 0) std::_Exit(99);
  ::close(ends[0]);
  ::close(ends[1]);
  char program[] = "program";
  char* arguments[] = {program, nullptr};
  std::_Exit(command_main("terngrad_eval", 1, arguments, [](int, char**) {
    std::cout << "top-1 = 1.0" << std::endl;
    return 7;
  }));
}

TEST(CommandMainDeathTest, AReaderThatHasLeftIsNoFailure) {
  ::testing::GTEST_FLAG(death_test_style) = "threadsafe";
  EXPECT_EXIT(run_without_a_reader(), ::testing::ExitedWithCode(7), "");
}

}  // namespace
}  // namespace terngrad::command_main_test
