// Contract B4 at every file-system call of a run, and behavior on a full disk.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <array>
#include <charconv>
#include <csignal>
#include <cstdlib>
#include <fstream>
#include <iostream>
#include <optional>
#include <ostream>
#include <set>
#include <span>
#include <sstream>
#include <string_view>

#include "kernels/runtime/errors.h"
#include "tests/resume/training_process.h"
#include "trainers/checkpoint/checkpoint.h"
#include "trainers/io/atomic_file.h"

namespace terngrad::fail_point_test {
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

/// Actions at each call of a run, in the order of TERNGRAD_RESUME_TURN.
constexpr std::array<std::string_view, 7> kActions = {
    "kill_before", "kill_after", "kill_before_in_resumed", "full_after", "full_then_kill", "full_once", "full_twice"};

/// The only action to run: number TERNGRAD_RESUME_TURN (for example of a commit) modulo the number of actions. nullopt:
/// run all.
std::optional<std::string_view> action_in_turn() {
  const char* turn = std::getenv("TERNGRAD_RESUME_TURN");
  if (turn == nullptr) return std::nullopt;
  const std::string_view text = turn;
  std::uint64_t number = 0;
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), number);
  if (error != std::errc() || end != text.data() + text.size()) {
    TERNGRAD_THROW(InvalidArgument, "TERNGRAD_RESUME_TURN: '", text, "' is refused, expected a number from 0");
  }
  return kActions[number % kActions.size()];
}

/// A call that opens or changes a file of a run.
struct Call {
  std::string name;
  std::string file;
  friend bool operator==(const Call&, const Call&) = default;
};

void PrintTo(const Call& call, std::ostream* stream) { *stream << call.name << " of " << call.file; }

/// A finished run and the file-system calls in its folder, in order.
class FailPoint : public ::testing::Test {
 protected:
  /// Starts a test of an action; skips it if another action is selected.
  void begin(std::string_view action) {
    ASSERT_THAT(kActions, ::testing::Contains(action));
    if (const auto in_turn = action_in_turn(); in_turn.value_or(action) != action) {
      GTEST_SKIP() << "action " << action << ": TERNGRAD_RESUME_TURN says " << *in_turn;
    }
    std::cout << "action " << action << "\n";
    train_whole();
  }

  void train_whole() {
    calls_ = calls_of("whole");
    expected_ = testing::final_state(folder_ / "whole", kSteps);
    for (const char* name : {"mkdir", "open", "write", "fsync", "rename", "unlink"}) {
      ASSERT_THAT(calls_, ::testing::Contains(::testing::Field(&Call::name, name)));
    }
  }

  /// Trains in a folder with the action at call number `call`.
  ProcessOutcome run(const std::string& name, const std::string& action, int call,
                     const std::vector<std::string>& more = {}) {
    std::vector<std::string> arguments = training_.arguments(folder_ / name, kSteps, kSaveSteps);
    arguments.insert(arguments.end(), more.begin(), more.end());
    return run_training(arguments,
                        {{"LD_PRELOAD", testing::file_from("TERNGRAD_FAIL_POINT_LIBRARY", TERNGRAD_FAIL_POINT_LIBRARY)},
                         {"TERNGRAD_FAIL_FOLDER", (folder_ / name).string()},
                         {"TERNGRAD_FAIL_ACTION", action},
                         {"TERNGRAD_FAIL_CALL", std::to_string(call)},
                         {"TERNGRAD_FAIL_LIST", (folder_ / (name + ".calls")).string()}});
  }

  /// File-system calls of all runs in a folder so far.
  std::vector<Call> noted_calls(const std::string& name) const {
    std::vector<Call> calls;
    std::istringstream lines(read_file_text(folder_ / (name + ".calls")));
    for (Call call; lines >> call.name >> call.file;) calls.push_back(call);
    return calls;
  }

  /// File-system calls of a run that must succeed.
  std::vector<Call> calls_of(const std::string& name, const std::vector<std::string>& more = {}) {
    fs::remove(folder_ / (name + ".calls"));
    const ProcessOutcome outcome = run(name, "", 0, more);
    EXPECT_EQ(outcome.exit_code, 0) << ::testing::PrintToString(outcome);
    return noted_calls(name);
  }

  /// Calls `check` with a new folder's name and each call's number from 1. Skips calls inside a series on one file,
  /// such as the many writes of a checkpoint: only the first two and the last two are checked.
  /// @returns number of calls checked
  template <class Check>
  int at_each_call(const std::vector<Call>& calls, const Check& check) {
    int num_checked = 0;
    for (std::size_t index = 0; index < calls.size(); ++index) {
      if (is_inside_a_series(calls, index)) continue;
      SCOPED_TRACE("call " + std::to_string(index + 1) + ", " + ::testing::PrintToString(calls[index]));
      check("run" + std::to_string(index + 1), static_cast<int>(index + 1));
      ++num_checked;
      if (HasFatalFailure()) break;
    }
    return num_checked;
  }

  /// True if the two calls before and the two after are the same.
  static bool is_inside_a_series(const std::vector<Call>& calls, std::size_t index) {
    if (index < 2 || index + 2 >= calls.size()) return false;
    const auto series = std::span(calls).subspan(index - 2, 5);
    return std::ranges::count(series, calls[index]) == std::ssize(series);
  }

  /// Resumes a run and expects the final state of the uninterrupted one.
  void expect_resumed_equal(const std::string& name) {
    std::vector<std::string> arguments = training_.arguments(folder_ / name, kSteps, kSaveSteps);
    // Without config.json the killed run had not begun.
    if (fs::exists(folder_ / name / "config.json")) arguments.emplace_back("--resume");
    const ProcessOutcome resumed = run_training(arguments);
    ASSERT_EQ(resumed.exit_code, 0) << ::testing::PrintToString(resumed);
    EXPECT_TRUE(testing::final_state(folder_ / name, kSteps) == expected_);
  }

  SmallTraining training_;
  TemporaryDirectory folder_;
  std::vector<Call> calls_;
  FinalState expected_;
};

TEST_F(FailPoint, EverythingReportedIsOnTheMediumBeforeTheCheckpointIs) {
  ASSERT_NO_FATAL_FAILURE(train_whole());
  std::set<std::string> unsynced;
  std::set<std::string> written;
  int num_checkpoints = 0;
  for (const Call& call : calls_) {
    if (call.name == "write") {
      unsynced.insert(call.file);
      written.insert(call.file.substr(0, call.file.find('.')));
    }
    if (call.name == "fsync") unsynced.erase(call.file);
    if (call.name != "rename" || !call.file.starts_with("checkpoint-")) continue;
    EXPECT_THAT(unsynced, ::testing::IsEmpty()) << call.file;
    ++num_checkpoints;
  }
  EXPECT_EQ(num_checkpoints, kSteps / kSaveSteps);
  EXPECT_THAT(unsynced, ::testing::IsEmpty()) << "at the end";
  EXPECT_THAT(written, ::testing::IsSupersetOf({"metrics", "histograms", "events"}));
}

TEST_F(FailPoint, KilledBeforeEachCall) {
  begin("kill_before");
  if (IsSkipped() || HasFatalFailure()) return;
  at_each_call(calls_, [&](const std::string& name, int call) {
    ASSERT_EQ(run(name, "kill_before", call).signal, SIGKILL);
    expect_resumed_equal(name);
  });
}

TEST_F(FailPoint, KilledAfterEachCall) {
  begin("kill_after");
  if (IsSkipped() || HasFatalFailure()) return;
  at_each_call(calls_, [&](const std::string& name, int call) {
    ASSERT_EQ(run(name, "kill_after", call).signal, SIGKILL);
    expect_resumed_equal(name);
  });
}

TEST_F(FailPoint, KilledAgainBeforeEachCallOfTheResumedRun) {
  begin("kill_before_in_resumed");
  if (IsSkipped() || HasFatalFailure()) return;
  // A kill before the rename of the second checkpoint, plus partial lines, leaves the most work for the resumed run.
  const fs::path second = checkpoint_path("", 2 * kSaveSteps);
  const auto renamed = std::ranges::find_if(
      calls_, [&](const Call& call) { return call.name == "rename" && call.file == second.string(); });
  ASSERT_NE(renamed, calls_.end());
  const int first_kill = static_cast<int>(renamed - calls_.begin()) + 1;
  const auto kill_once = [&](const std::string& name) {
    ASSERT_EQ(run(name, "kill_before", first_kill).signal, SIGKILL);
    for (const char* file : {"metrics.jsonl", "histograms.jsonl"}) {
      std::ofstream(folder_ / name / file, std::ios::app) << "{\"step\":6,\"kind\":\"tr";
    }
  };
  kill_once("resumed");
  const std::vector<Call> calls = calls_of("resumed", {"--resume"});
  for (const char* name : {"open", "write", "fsync", "rename", "unlink"}) {
    ASSERT_THAT(calls, ::testing::Contains(::testing::Field(&Call::name, name)));
  }
  at_each_call(calls, [&](const std::string& name, int call) {
    kill_once(name);
    ASSERT_EQ(run(name, "kill_before", call, {"--resume"}).signal, SIGKILL);
    expect_resumed_equal(name);
  });
}

TEST_F(FailPoint, FullDiskStopsTheRunWithAllSavedCheckpointsIntact) {
  begin("full_after");
  if (IsSkipped() || HasFatalFailure()) return;
  at_each_call(calls_, [&](const std::string& name, int call) {
    const ProcessOutcome outcome = run(name, "full_after", call);
    ASSERT_EQ(outcome.exit_code, 1) << ::testing::PrintToString(outcome);
    EXPECT_THAT(outcome.err, HasSubstr("No space left on device"));
    for (const CheckpointFile& file : list_checkpoints(folder_ / name)) EXPECT_NO_THROW(load_checkpoint(file.path));
    expect_resumed_equal(name);
  });
}

TEST_F(FailPoint, KilledWhileItCleansUpAfterAFullDisk) {
  begin("full_then_kill");
  if (IsSkipped() || HasFatalFailure()) return;
  std::set<std::string> killed_before;
  at_each_call(calls_, [&](const std::string& name, int call) {
    const ProcessOutcome outcome = run(name, "full_then_kill", call);
    if (outcome.signal == SIGKILL) {
      const Call last = noted_calls(name).back();
      killed_before.insert(last.name + (is_temporary_name(last.file) ? " of a temporary" : ""));
    } else {
      ASSERT_EQ(outcome.exit_code, 1) << ::testing::PrintToString(outcome);
    }
    expect_resumed_equal(name);
  });
  // Truncating a partial record, and removing a temporary file.
  EXPECT_THAT(killed_before, ::testing::IsSupersetOf({"ftruncate", "unlink of a temporary"}));
}

/// A disk that is full during one call or two. With two, truncating a partial record or removing a temporary file
/// fails, too.
class FailPointForAMoment : public FailPoint, public ::testing::WithParamInterface<const char*> {};

TEST_P(FailPointForAMoment, IsSurvivedOnRequest) {
  begin(GetParam());
  if (IsSkipped() || HasFatalFailure()) return;
  // Calls before the first step and the last save must succeed; the others may fail.
  int num_survived = 0;
  const int num_checked = at_each_call(calls_, [&](const std::string& name, int call) {
    const ProcessOutcome outcome = run(name, GetParam(), call, {"--on_save_error", "continue"});
    if (outcome.exit_code == 0) {
      ++num_survived;
      EXPECT_TRUE(testing::final_state(folder_ / name, kSteps) == expected_);
    } else {
      EXPECT_EQ(outcome.exit_code, 1) << ::testing::PrintToString(outcome);
      EXPECT_THAT(outcome.err, HasSubstr("No space left on device"));
      expect_resumed_equal(name);
    }
  });
  EXPECT_GT(num_survived, num_checked / 4);
}

INSTANTIATE_TEST_SUITE_P(Disk, FailPointForAMoment, ::testing::Values("full_once", "full_twice"));

}  // namespace
}  // namespace terngrad::fail_point_test
