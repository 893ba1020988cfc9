#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cstdint>
#include <filesystem>
#include <functional>
#include <string>
#include <utility>
#include <vector>

#include "kernels/runtime/errors.h"
#include "tests/trainers/fake_run.h"
#include "tests/trainers/temporary_directory.h"
#include "trainers/hooks/checkpoint_hook.h"
#include "trainers/hooks/interval.h"
#include "trainers/hooks/metrics_hook.h"

namespace terngrad::checkpoint_hook_test {
namespace {

using ::testing::AllOf;
using ::testing::ElementsAre;
using testing::FakeRun;
using ::testing::HasSubstr;
using testing::message_of;
using testing::shown_by;
using testing::TemporaryDirectory;

class CheckpointHookTest : public ::testing::Test {
 protected:
  CheckpointHook make_hook(CheckpointHookOptions options, ProgressDisplay& display) {
    return {std::move(options), state_, sync_reports_, display};
  }
  CheckpointHook make_hook(CheckpointHookOptions options) { return make_hook(std::move(options), display_); }
  Checkpoint load(std::uint64_t step) const { return load_checkpoint(checkpoint_path(folder_.path(), step)); }
  bool is_saved(std::uint64_t step) const { return std::filesystem::exists(checkpoint_path(folder_.path(), step)); }

  /// A folder that was deleted while it was open.
  Folder deleted_folder() const {
    std::filesystem::create_directory(folder_ / "gone");
    Folder folder(folder_ / "gone");
    std::filesystem::remove(folder_ / "gone");
    return folder;
  }

  TemporaryDirectory folder_;
  CheckpointState state_;
  std::function<void()> sync_reports_ = [] {};
  ProgressDisplay display_{stderr, ProgressDisplay::Mode::kLog};
  FakeRun run_;
};

TEST_F(CheckpointHookTest, SavesEveryNStepsAndAtTheEnd) {
  state_.net = "identity";
  state_.extra_metadata["codec"] = "fp32";
  CheckpointHook hook = make_hook({.folder = Folder(folder_.path()), .save_steps = 2, .keep_last = 2});
  for (int i = 0; i < 7; ++i) EXPECT_EQ(run_.step(hook), HookVerdict::kContinue);
  hook.after_train(run_.view());
  std::vector<std::uint64_t> steps;
  for (const CheckpointFile& file : list_checkpoints(folder_.path())) steps.push_back(file.step);
  EXPECT_THAT(steps, ElementsAre(6, 7));  // the newest two
  const Checkpoint checkpoint = load(7);
  EXPECT_EQ(checkpoint.state().step, 7u);
  EXPECT_EQ(checkpoint.state().net, "identity");
  // Metadata of the run, and current metadata of the optimizer.
  state_.extra_metadata["updates"] = "3";
  EXPECT_EQ(checkpoint.state().extra_metadata, state_.extra_metadata);
  std::vector<float> values(run_.values.size());
  for (const auto& [group, value] : {std::pair{"parameters", 0.5f}, {"ema", 0.25f}, {"slots/momentum", -1.0f}}) {
    checkpoint.read_group(group, run_.net.layout(), values);
    EXPECT_EQ(values[0], value) << group;
  }
}

TEST_F(CheckpointHookTest, SyncsWhatWasReportedBeforeEachSave) {
  std::vector<std::uint64_t> synced;
  sync_reports_ = [&] {
    EXPECT_FALSE(is_saved(run_.done));
    synced.push_back(run_.done);
  };
  CheckpointHook hook = make_hook({.folder = Folder(folder_.path()), .save_steps = 3, .save_at_start = true});
  hook.before_train(run_.view());
  for (int i = 0; i < 7; ++i) run_.step(hook);
  hook.after_train(run_.view());
  EXPECT_THAT(synced, ElementsAre(0, 3, 6, 7));
}

TEST_F(CheckpointHookTest, DoesNotSaveWhatReportsDoNotReach) {
  sync_reports_ = [] { throw DataError("the medium is gone"); };
  CheckpointHook hook = make_hook({.folder = Folder(folder_.path())});
  EXPECT_THAT(message_of<DataError>([&] { run_.step(hook); }), HasSubstr("the medium is gone"));
  EXPECT_FALSE(is_saved(1));
}

TEST_F(CheckpointHookTest, KeepsTheStateOfHooks) {
  MetricsWriter writer(folder_ / "m.jsonl");
  const auto metrics = make_metrics_hook(writer, 3, 0);
  CheckpointHook hook = make_hook({.folder = Folder(folder_.path())});
  run_.hook_state = [&] {
    std::map<std::string, std::string> entries;
    metrics->save_state(entries);
    return entries;
  };
  for (int i = 0; i < 3; ++i) {
    run_.step(*metrics);
    --run_.done;
    run_.step(hook);
  }
  EXPECT_EQ(interval_of(load(2).state().extra_metadata).steps, 2u);
  EXPECT_EQ(interval_of(load(2).state().extra_metadata).loss, 3.0);
  EXPECT_FALSE(load(3).state().extra_metadata.contains(kIntervalKey));
}

TEST_F(CheckpointHookTest, SavesTheBeginningOnRequest) {
  const CheckpointHookOptions options{.folder = Folder(folder_.path()), .save_steps = 100, .save_at_start = true};
  make_hook(options).before_train(run_.view());
  EXPECT_TRUE(is_saved(0));
  run_.done = 3;  // a resumed run already has its checkpoint
  make_hook(options).before_train(run_.view());
  EXPECT_FALSE(is_saved(3));
}

TEST_F(CheckpointHookTest, SavesIntoItsFolderWhereverThatIs) {
  const std::filesystem::path first = folder_ / "first";
  std::filesystem::create_directory(first);
  CheckpointHook hook = make_hook({.folder = Folder(first), .keep_last = 1});
  run_.step(hook);
  std::filesystem::rename(first, folder_ / "second");
  // The new folder has a checkpoint that the hook would delete as the oldest.
  std::filesystem::create_directory(first);
  std::filesystem::copy(folder_ / "second", first);
  run_.step(hook);
  EXPECT_EQ(latest_checkpoint(first)->step, 1u);
  const std::vector<CheckpointFile> own = list_checkpoints(folder_ / "second");
  ASSERT_EQ(own.size(), 1u);
  EXPECT_EQ(own[0].step, 2u);
}

TEST_F(CheckpointHookTest, FolderThatIsGoneIsAnError) {
  CheckpointHook hook = make_hook({.folder = deleted_folder()});
  EXPECT_THAT(message_of<DataError>([&] { run_.step(hook); }), HasSubstr("gone"));
}

TEST_F(CheckpointHookTest, ContinuesAfterAnErrorOnRequestButNotAfterTheLast) {
  const std::string text = shown_by([&](ProgressDisplay& display) {
    CheckpointHook hook =
        make_hook({.folder = deleted_folder(), .save_steps = 3, .on_error = OnSaveError::kContinue}, display);
    for (int i = 0; i < 7; ++i) EXPECT_EQ(run_.step(hook), HookVerdict::kContinue);
    EXPECT_THROW(hook.after_train(run_.view()), DataError);
  });
  EXPECT_THAT(text, AllOf(HasSubstr("step 3: "), HasSubstr("step 6: "), HasSubstr("gone"),
                          HasSubstr("training continues, no checkpoint is saved yet\n")));
}

}  // namespace
}  // namespace terngrad::checkpoint_hook_test
