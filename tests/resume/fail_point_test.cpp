// Contract B4 at every file-system call of a run, and what a full disk does.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <csignal>
#include <sstream>

#include "tests/resume/training_process.h"
#include "trainers/atomic_file.h"
#include "trainers/checkpoint.h"

namespace terngrad {
namespace {

namespace fs = std::filesystem;
using testing::FinalState;
using ::testing::HasSubstr;
using testing::ProcessOutcome;
using testing::run_training;
using testing::SmallTraining;
using testing::TemporaryDirectory;

constexpr int kSteps = 6;
constexpr int kSaveSteps = 3;

/// A finished run and the names of the file-system calls it made in its folder, in order.
class FailPoint : public ::testing::Test {
 protected:
  void SetUp() override {
#if defined(__SANITIZE_ADDRESS__) || defined(__SANITIZE_THREAD__)
    GTEST_SKIP() << "the sanitizer's own library must be the first that is loaded";
#endif
    ASSERT_EQ(run("whole", "list", 0).exit_code, 0);
    std::istringstream lines(read_file_text(folder_ / "calls"));
    for (std::string line; std::getline(lines, line);) calls_.push_back(line);
    expected_ = testing::final_state(folder_ / "whole", kSteps);
    for (const char* name : {"open", "write", "fsync", "rename"}) {
      ASSERT_THAT(calls_, ::testing::Contains(name));
    }
  }

  /// Runs in a folder with a fail point at call number `call`.
  ProcessOutcome run(const std::string& name, const std::string& action, int call,
                     const std::vector<std::string>& more = {}) {
    std::vector<std::string> arguments = training_.arguments(folder_ / name, kSteps, kSaveSteps);
    arguments.insert(arguments.end(), more.begin(), more.end());
    return run_training(arguments, {{"LD_PRELOAD", TERNGRAD_FAIL_POINT_LIBRARY},
                                    {"TERNGRAD_FAIL_FOLDER", (folder_ / name).string()},
                                    {"TERNGRAD_FAIL_ACTION", action},
                                    {"TERNGRAD_FAIL_CALL", std::to_string(call)},
                                    {"TERNGRAD_FAIL_LIST", (folder_ / "calls").string()}});
  }

  /// Goes on with a run and expects the end of the uninterrupted one.
  void expect_resumed_equal(const std::string& name) {
    std::vector<std::string> arguments = training_.arguments(folder_ / name, kSteps, kSaveSteps);
    // Killed before its config.json was there, a run has not begun.
    if (fs::exists(folder_ / name / "config.json")) arguments.emplace_back("--resume");
    const ProcessOutcome resumed = run_training(arguments);
    ASSERT_EQ(resumed.exit_code, 0) << ::testing::PrintToString(resumed);
    EXPECT_TRUE(testing::final_state(folder_ / name, kSteps) == expected_);
  }

  SmallTraining training_;
  TemporaryDirectory folder_;
  std::vector<std::string> calls_;
  FinalState expected_;
};

TEST_F(FailPoint, KilledBeforeEachCall) {
  for (int call = 1; call <= static_cast<int>(calls_.size()); ++call) {
    SCOPED_TRACE("call " + std::to_string(call) + ", " + calls_[static_cast<std::size_t>(call - 1)]);
    const std::string name = "run" + std::to_string(call);
    ASSERT_EQ(run(name, "kill_before", call).signal, SIGKILL);
    expect_resumed_equal(name);
  }
}

TEST_F(FailPoint, KilledAfterEachCall) {
  for (int call = 1; call <= static_cast<int>(calls_.size()); ++call) {
    SCOPED_TRACE("call " + std::to_string(call) + ", " + calls_[static_cast<std::size_t>(call - 1)]);
    const std::string name = "run" + std::to_string(call);
    ASSERT_EQ(run(name, "kill_after", call).signal, SIGKILL);
    expect_resumed_equal(name);
  }
}

TEST_F(FailPoint, FullDiskStopsTheRunWithAllSavedCheckpointsIntact) {
  for (int call = 1; call <= static_cast<int>(calls_.size()); ++call) {
    SCOPED_TRACE("call " + std::to_string(call) + ", " + calls_[static_cast<std::size_t>(call - 1)]);
    const std::string name = "run" + std::to_string(call);
    const ProcessOutcome outcome = run(name, "full_after", call);
    ASSERT_EQ(outcome.exit_code, 1) << ::testing::PrintToString(outcome);
    EXPECT_THAT(outcome.err, HasSubstr("No space left on device"));
    for (const CheckpointFile& file : list_checkpoints(folder_ / name)) EXPECT_NO_THROW(load_checkpoint(file.path));
    expect_resumed_equal(name);
  }
}

TEST_F(FailPoint, DiskThatIsFullForAMomentIsSurvivedOnRequest) {
  // What comes before the first step, and the last save, must succeed; what lies between may fail.
  int num_survived = 0;
  for (int call = 1; call <= static_cast<int>(calls_.size()); ++call) {
    SCOPED_TRACE("call " + std::to_string(call) + ", " + calls_[static_cast<std::size_t>(call - 1)]);
    const std::string name = "run" + std::to_string(call);
    const ProcessOutcome outcome = run(name, "full_once", call, {"--on_save_error", "continue"});
    if (outcome.exit_code == 0) {
      ++num_survived;
      EXPECT_TRUE(testing::final_state(folder_ / name, kSteps) == expected_);
    } else {
      EXPECT_EQ(outcome.exit_code, 1) << ::testing::PrintToString(outcome);
      EXPECT_THAT(outcome.err, HasSubstr("No space left on device"));
      expect_resumed_equal(name);
    }
  }
  EXPECT_GT(num_survived, static_cast<int>(calls_.size()) / 4);
}

}  // namespace
}  // namespace terngrad
