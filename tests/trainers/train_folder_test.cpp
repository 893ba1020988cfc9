// Changes of a run's folder during the run.
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <signal.h>
#include <unistd.h>

#include <chrono>
#include <filesystem>
#include <functional>
#include <nlohmann/json.hpp>
#include <string>
#include <system_error>
#include <thread>
#include <vector>

#include "tests/trainers/event_reader.h"
#include "tests/trainers/train_runs.h"
#include "trainers/checkpoint/checkpoint.h"
#include "trainers/io/atomic_file.h"

namespace terngrad::train_folder_test {
namespace {

namespace fs = std::filesystem;
using ::testing::AllOf;
using testing::CommandOutcome;
using ::testing::HasSubstr;
using testing::operator+;
using testing::SmallMnist;
using testing::TemporaryDirectory;
using testing::train;

/// Step of the newest checkpoint, 0 if there is none.
std::uint64_t saved_step(const fs::path& folder) {
  const auto newest = latest_checkpoint(folder);
  return newest ? newest->step : 0;
}

/// Waits (at most a minute) for a checkpoint after `step`.
void wait_for_save_after(std::uint64_t step, const fs::path& folder) {
  for (int i = 0; i < 60000 && saved_step(folder) <= step; ++i) {
    std::this_thread::sleep_for(std::chrono::milliseconds(1));
  }
  EXPECT_GT(saved_step(folder), step);
}

/// Trains without end, with a save in each step, until `change` is done, then sends SIGTERM.
CommandOutcome train_while(const SmallMnist& mnist, const fs::path& run, const std::function<void()>& change) {
  std::thread other([&] {
    wait_for_save_after(0, run);
    change();
    ::kill(::getpid(), SIGTERM);
  });
  const CommandOutcome outcome =
      train(mnist.options(run) + std::vector<std::string>{"--max_steps", "1000000", "--save_iter", "1", "--log_steps",
                                                          "1", "--keep_checkpoints", "1"});
  other.join();
  return outcome;
}

TEST(TrainFolder, RenamedFolderIsStillTheRunsAndOneOfItsOldNameIsNot) {
  const SmallMnist mnist;
  const TemporaryDirectory folder;
  const fs::path run = folder / "run";
  const fs::path moved = folder / "moved";
  const CommandOutcome outcome = train_while(mnist, run, [&] {
    fs::rename(run, moved);
    fs::create_directory(run);
    wait_for_save_after(saved_step(moved) + 1, moved);
  });
  EXPECT_EQ(outcome.exit_code, kExitSignal + SIGTERM) << ::testing::PrintToString(outcome);
  EXPECT_TRUE(fs::is_empty(run));
  EXPECT_THAT(outcome.out, AllOf(HasSubstr("run directory: " + moved.string() + "\n"),
                                 HasSubstr("stopped after step " + std::to_string(saved_step(moved)) + " of "),
                                 HasSubstr("--train_dir " + moved.string() + " and --resume")));
  EXPECT_EQ(testing::metrics_of(moved).size(), saved_step(moved));
}

TEST(TrainFolder, ReportsThatAreDeletedAreWrittenAgainWhole) {
  const SmallMnist mnist;
  const TemporaryDirectory folder;
  const fs::path run = folder / "run";
  std::string events;
  const CommandOutcome outcome = train_while(mnist, run, [&] {
    events = testing::event_files(run).at(0).string();
    for (const fs::path& path :
         {run / "config.json", run / "metrics.jsonl", run / "histograms.jsonl", fs::path(events)}) {
      fs::remove(path);
    }
    wait_for_save_after(saved_step(run) + 1, run);
  });
  EXPECT_EQ(outcome.exit_code, kExitSignal + SIGTERM) << ::testing::PrintToString(outcome);
  for (const std::string& path : {(run / "config.json").string(), (run / "metrics.jsonl").string(),
                                  (run / "histograms.jsonl").string(), events}) {
    EXPECT_THAT(outcome.err, HasSubstr("'" + path + "' was deleted during the run")) << path;
  }
  const auto metrics = testing::metrics_of(run);
  ASSERT_EQ(metrics.size(), saved_step(run));
  EXPECT_EQ(metrics.front()["step"], 1);
  EXPECT_GT(testing::seen_scalars(run).size(), metrics.size());
  EXPECT_TRUE(nlohmann::json::parse(read_file_text(run / "config.json")).contains("identity"));
}

TEST(TrainFolder, ThatIsDeletedEndsTheRunWithAnError) {
  const SmallMnist mnist;
  const TemporaryDirectory folder;
  const fs::path run = folder / "run";
  // No signal: the run must end by itself.
  std::thread other([&] {
    wait_for_save_after(0, run);
    std::error_code error;
    for (int i = 0; i < 1000 && (fs::remove_all(run, error), fs::exists(run)); ++i) {
    }
  });
  const CommandOutcome outcome =
      train(mnist.options(run) + std::vector<std::string>{"--max_steps", "1000000", "--save_iter", "20"});
  other.join();
  EXPECT_EQ(outcome.exit_code, kExitFailure) << ::testing::PrintToString(outcome);
  EXPECT_THAT(outcome.err, AllOf(HasSubstr("the folder was deleted"), HasSubstr(run.string())));
}

}  // namespace
}  // namespace terngrad::train_folder_test
