// Contract B4: a run that is killed by SIGKILL at any moment and resumed ends with the state of an uninterrupted run.
#include <gtest/gtest.h>

#include <algorithm>
#include <csignal>
#include <random>

#include "tests/resume/training_process.h"

namespace terngrad::kill_test {
namespace {

using std::chrono::milliseconds;
using testing::FinalState;
using testing::ProcessOutcome;
using testing::run_training;
using testing::SmallTraining;
using testing::TemporaryDirectory;

constexpr int kSteps = 60;
constexpr int kSaveSteps = 7;
constexpr int kKills = 20;

TEST(Kill, AtRandomMomentsChangesNothing) {
  const SmallTraining training;
  const TemporaryDirectory folder;
  const auto begin = std::chrono::steady_clock::now();
  const ProcessOutcome whole = run_training(training.arguments(folder / "whole", kSteps, kSaveSteps));
  ASSERT_EQ(whole.exit_code, 0) << ::testing::PrintToString(whole);
  const auto duration = std::chrono::duration_cast<milliseconds>(std::chrono::steady_clock::now() - begin);
  const FinalState expected = testing::final_state(folder / "whole", kSteps);

  // The moment of a kill depends on the machine; the final state does not.
  std::mt19937 random(1);
  std::uniform_int_distribution<std::int64_t> delays(0, std::max<std::int64_t>(duration.count(), 4));
  int num_kills = 0;
  for (int run = 0; num_kills < kKills; ++run) {
    ASSERT_LT(run, 100) << "runs end before they are killed";
    const std::filesystem::path train_dir = folder / ("run" + std::to_string(run));
    bool ended = false;
    // After many kills the run may finish, so that slow machines end, too.
    for (int start = 0; !ended; ++start) {
      std::vector<std::string> arguments = training.arguments(train_dir, kSteps, kSaveSteps);
      if (std::filesystem::exists(train_dir / "config.json")) arguments.emplace_back("--resume");
      const auto delay = start < 10 ? std::optional(milliseconds(delays(random))) : std::nullopt;
      const ProcessOutcome outcome = run_training(arguments, {}, delay);
      ended = outcome.signal != SIGKILL;
      num_kills += ended ? 0 : 1;
      ASSERT_TRUE(!ended || outcome.exit_code == 0) << ::testing::PrintToString(outcome);
    }
    EXPECT_TRUE(testing::final_state(train_dir, kSteps) == expected) << "run " << run;
  }
}

}  // namespace
}  // namespace terngrad::kill_test
