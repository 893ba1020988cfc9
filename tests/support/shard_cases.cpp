// Cases for run_shard_test.py. SHARD_CASES names, separated by commas, what goes wrong.
#include <gtest/gtest.h>
#include <unistd.h>

#include <csignal>
#include <cstdlib>
#include <iostream>
#include <string>
#include <thread>

namespace terngrad::shard_cases {
namespace {

bool has(const std::string& what) {
  const char* asked = std::getenv("SHARD_CASES");
  return asked != nullptr && ("," + std::string(asked) + ",").find("," + what + ",") != std::string::npos;
}

int num_started = 0;

TEST(First, IsNotSparedSignals) {
  ++num_started;
  for (const int signal : {SIGHUP, SIGINT, SIGQUIT, SIGTERM}) EXPECT_EQ(std::signal(signal, SIG_DFL), SIG_DFL);
}

TEST(First, FailsIfAsked) {
  ++num_started;
  std::cout << "an unfinished line ";
  EXPECT_FALSE(has("fail")) << "the reason";
}

TEST(First, SkipsIfAsked) {
  ++num_started;
  if (has("skip")) GTEST_SKIP() << "nothing to run on";
}

TEST(Second, CrashesIfAsked) {
  ++num_started;
  if (has("crash")) std::abort();
  if (has("crash_after_others") && num_started > 1) std::abort();
  if (has("exit")) ::_exit(0);
  if (has("hang")) std::this_thread::sleep_for(std::chrono::hours(1));
}

TEST(Second, DependsOnOthersIfAsked) {
  ++num_started;
  if (has("depend")) {
    EXPECT_EQ(num_started, 1) << "not the first to run";
  }
}

TEST(Second, DISABLED_NeverRuns) { FAIL(); }

class Parameters : public ::testing::TestWithParam<int> {};
TEST_P(Parameters, FailIfAsked) {
  ++num_started;
  EXPECT_FALSE(has("fail_parameter") && GetParam() == 8);
}
INSTANTIATE_TEST_SUITE_P(Some, Parameters, ::testing::Values(7, 8));

// Fails at the end of the process, as LeakSanitizer does, if a case asked for it.
TEST(Third, FailsTheProcessIfAsked) {
  ++num_started;
  if (has("leak")) std::atexit([] { ::_exit(23); });
}

}  // namespace
}  // namespace terngrad::shard_cases
