#include "trainers/evaluate/follow_run.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <functional>
#include <sstream>
#include <string>
#include <vector>

#include "kernels/runtime/errors.h"
#include "tests/trainers/command_runs.h"
#include "tests/trainers/temporary_directory.h"
#include "trainers/io/atomic_file.h"

namespace terngrad::follow_run_test {
namespace {

namespace fs = std::filesystem;
using ::testing::AllOf;
using ::testing::ElementsAre;
using ::testing::HasSubstr;
using testing::message_of;
using testing::TemporaryDirectory;

void save(const fs::path& folder, std::uint64_t step, int keep_last = 0) {
  Layout layout;
  layout.add("a", {3});
  const std::vector<float> values(static_cast<std::size_t>(layout.flat_elements()), 0.5f);
  CheckpointView view;
  view.layout = &layout;
  view.state.step = step;
  view.groups = {{"parameters", values}};
  save_checkpoint(folder, view, keep_last);
}

void write_config(const fs::path& folder, int max_steps) {
  write_file_atomically(folder / "config.json", "{\"options\": {\"max_steps\": " + std::to_string(max_steps) + "}}");
}

TEST(LoadNewestCheckpoint, TakesTheHighestStep) {
  const TemporaryDirectory folder;
  EXPECT_FALSE(load_newest_checkpoint(folder.path()).has_value());
  EXPECT_FALSE(load_newest_checkpoint(folder / "none").has_value());
  save(folder.path(), 2);
  save(folder.path(), 10);
  EXPECT_EQ(load_newest_checkpoint(folder.path())->state().step, 10u);
}

TEST(LoadNewestCheckpoint, ADamagedOneIsAnError) {
  const TemporaryDirectory folder;
  save(folder.path(), 2);
  save(folder.path(), 10);
  testing::damage(checkpoint_path(folder.path(), 10));
  EXPECT_THAT(message_of<DataError>([&] { load_newest_checkpoint(folder.path()); }),
              HasSubstr(checkpoint_path(folder.path(), 10).string()));
}

TEST(LoadNewestCheckpoint, OneThatVanishesIsReplacedByANewerOne) {
  const TemporaryDirectory folder;
  save(folder.path(), 2);
  // Before the listed checkpoint is opened, the run saves the next one and deletes it.
  std::vector<fs::path> opened;
  const auto late = [&](const fs::path& path) {
    if (opened.empty()) save(folder.path(), 4, 1);
    opened.push_back(path);
    return load_checkpoint(path);
  };
  EXPECT_EQ(load_newest_checkpoint(folder.path(), late)->state().step, 4u);
  EXPECT_THAT(opened, ElementsAre(checkpoint_path(folder.path(), 2), checkpoint_path(folder.path(), 4)));
}

TEST(LoadNewestCheckpoint, ANameWithoutAFileIsAnError) {
  const TemporaryDirectory folder;
  save(folder.path(), 2);
  fs::create_symlink(folder / "none", checkpoint_path(folder.path(), 4));
  EXPECT_THAT(message_of<DataError>([&] { load_newest_checkpoint(folder.path()); }),
              HasSubstr(checkpoint_path(folder.path(), 4).string()));
}

TEST(LastStepOfRun, IsTheConfigsMaxSteps) {
  const TemporaryDirectory folder;
  EXPECT_FALSE(last_step_of_run(folder.path()).has_value());
  write_config(folder.path(), 300);
  EXPECT_EQ(last_step_of_run(folder.path()), 300u);
  for (const char* text : {"{", "{}", "{\"options\": {\"max_steps\": \"x\"}}"}) {
    folder.write("config.json", text);
    EXPECT_THAT(message_of<DataError>([&] { last_step_of_run(folder.path()); }),
                AllOf(HasSubstr("config.json"), HasSubstr("max_steps")));
  }
}

/// Follows the run in `folder`; each wait executes the run's next event.
struct Followed {
  bool is_finished = false;
  std::vector<std::uint64_t> steps;
  std::string messages;
};

Followed follow(const fs::path& folder, std::vector<std::function<void()>> events) {
  Followed result;
  std::ostringstream messages;
  std::size_t next = 0;
  result.is_finished = follow_run(
      folder, [&](const Checkpoint& checkpoint) { result.steps.push_back(checkpoint.state().step); },
      [&] {
        if (next == events.size()) return true;
        events[next++]();
        return false;
      },
      messages);
  result.messages = messages.str();
  return result;
}

TEST(FollowRun, EvaluatesNewCheckpointsUntilTheLastStep) {
  const TemporaryDirectory folder;
  const fs::path run = folder / "run";
  const Followed followed = follow(run, {[&] {
                                           fs::create_directory(run);
                                           write_config(run, 9);
                                         },
                                         [&] { save(run, 2); }, [] {}, [] {},
                                         [&] {
                                           save(run, 4);
                                           save(run, 6, 1);
                                         },
                                         [&] { save(run, 9); }, [] { FAIL() << "the last step is evaluated"; }});
  EXPECT_TRUE(followed.is_finished);
  EXPECT_THAT(followed.steps, ElementsAre(2, 6, 9));
  EXPECT_EQ(followed.messages, "no checkpoint in " + run.string() + " yet: waiting for the first\n" +
                                   "step 2 is evaluated already: waiting for the next checkpoint\n");
}

TEST(FollowRun, ARunMadeLongerIsFollowedOn) {
  const TemporaryDirectory folder;
  write_config(folder.path(), 9);
  save(folder.path(), 5);
  const Followed followed = follow(folder.path(), {[&] {
                                                     write_config(folder.path(), 12);
                                                     save(folder.path(), 9);
                                                   },
                                                   [&] { save(folder.path(), 12); }});
  EXPECT_TRUE(followed.is_finished);
  EXPECT_THAT(followed.steps, ElementsAre(5, 9, 12));
}

TEST(FollowRun, StopsWhenAskedTo) {
  const TemporaryDirectory folder;
  write_config(folder.path(), 9);
  save(folder.path(), 5);
  const Followed followed = follow(folder.path(), {});
  EXPECT_FALSE(followed.is_finished);
  EXPECT_THAT(followed.steps, ElementsAre(5));
}

TEST(FollowRun, CheckpointsWithoutAConfigAreAnError) {
  const TemporaryDirectory folder;
  save(folder.path(), 5);
  EXPECT_THAT(message_of<DataError>([&] { follow(folder.path(), {}); }),
              AllOf(HasSubstr("config.json"), HasSubstr("--run_once")));
}

}  // namespace
}  // namespace terngrad::follow_run_test
