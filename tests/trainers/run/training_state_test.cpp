#include "trainers/run/training_state.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <memory>
#include <nlohmann/json.hpp>
#include <string>
#include <vector>

#include "kernels/runtime/errors.h"
#include "tests/nets/branched_net.h"
#include "tests/support/bits.h"
#include "tests/trainers/expected_identity.h"
#include "tests/trainers/fake_run.h"
#include "tests/trainers/small_training.h"
#include "tests/trainers/temporary_directory.h"
#include "trainers/hooks/checkpoint_hook.h"
#include "trainers/hooks/interval.h"
#include "trainers/hooks/metrics_hook.h"
#include "trainers/hooks/net_state.h"
#include "trainers/io/metrics.h"
#include "trainers/launch/progress.h"

namespace terngrad::training_state_test {
namespace {

using ::testing::AllOf;
using testing::bits_of;
using ::testing::HasSubstr;
using testing::make_small_trainer;
using testing::message_of;
using testing::SmallRun;
using testing::state_bits;
using testing::TemporaryDirectory;

constexpr std::uint64_t kSaved = 4;
constexpr std::uint64_t kSteps = 6;

/// A net with batch norm and dropout; two workers.
SmallRun small_run() { return {.num_workers = 2, .total_steps = kSteps, .net = test::branched_net(0.6f)}; }

CheckpointState state_of_run() {
  CheckpointState state;
  state.net = "branched";
  state.num_workers = 2;
  return state;
}

/// Trains to the end, with a checkpoint after step kSaved.
std::unique_ptr<Trainer> train_and_save(const TemporaryDirectory& folder) {
  MetricsWriter writer(folder / "m.jsonl");
  ProgressDisplay display(stderr, ProgressDisplay::Mode::kLog);
  std::unique_ptr<Trainer> trainer = make_small_trainer(small_run());
  trainer->add_hook(std::make_unique<CheckpointHook>(
      CheckpointHookOptions{.folder = Folder(folder.path()), .save_steps = kSaved}, state_of_run(),
      [&] { writer.sync(); }, display));
  trainer->run();
  std::filesystem::remove(checkpoint_path(folder.path(), kSteps));
  return trainer;
}

TEST(Restore, ContinuesAsTheRunThatSaved) {
  const TemporaryDirectory folder;
  const std::unique_ptr<Trainer> whole = train_and_save(folder);
  const std::unique_ptr<Trainer> resumed = make_small_trainer(small_run());
  const std::optional<Checkpoint> newest = load_newest(folder.path());
  ASSERT_TRUE(newest.has_value());
  EXPECT_EQ(newest->state().step, kSaved);
  restore(*newest, testing::expected_identity(state_of_run()), kSteps, *resumed);
  EXPECT_NE(state_bits(*resumed), state_bits(*whole));
  resumed->run();
  EXPECT_EQ(state_bits(*resumed), state_bits(*whole));
  for (int worker = 0; worker < 2; ++worker) {
    EXPECT_EQ(bits_of(resumed->state(worker)), bits_of(whole->state(worker)));
  }
}

// The checkpoint lies between two metrics records: the next record includes the steps before it.
TEST(Restore, GivesHooksTheirStateBack) {
  const TemporaryDirectory folder;
  const auto train = [&](Trainer& trainer, const std::string& name) {
    MetricsWriter writer(folder / name);
    ProgressDisplay display(stderr, ProgressDisplay::Mode::kSilent);
    trainer.add_hook(make_metrics_hook(writer, /*log_steps=*/3, 0));
    trainer.add_hook(std::make_unique<CheckpointHook>(
        CheckpointHookOptions{.folder = Folder(folder.path()), .save_steps = kSaved}, state_of_run(),
        [&] { writer.sync(); }, display));
    trainer.run();
    std::vector<nlohmann::ordered_json> lines = testing::lines_of(folder / name);
    for (nlohmann::ordered_json& line : lines) line = testing::without_times(line);
    return lines;
  };
  const std::vector<nlohmann::ordered_json> whole = train(*make_small_trainer(small_run()), "whole.jsonl");
  const std::unique_ptr<Trainer> resumed = make_small_trainer(small_run());
  restore(load_checkpoint(checkpoint_path(folder.path(), kSaved)), testing::expected_identity(state_of_run()), kSteps,
          *resumed);
  const std::vector<nlohmann::ordered_json> rest = train(*resumed, "rest.jsonl");
  ASSERT_EQ(rest.size(), 1u);
  EXPECT_EQ(rest.back(), whole.back());
}

TEST(Restore, RefusesADamagedStateOfHooks) {
  const TemporaryDirectory folder;
  ProgressDisplay display(stderr, ProgressDisplay::Mode::kSilent);
  CheckpointState state = state_of_run();
  state.extra_metadata[kIntervalKey] = "3 x";
  const std::unique_ptr<Trainer> trainer = make_small_trainer(small_run());
  trainer->add_hook(std::make_unique<CheckpointHook>(
      CheckpointHookOptions{.folder = Folder(folder.path()), .save_steps = kSaved}, state, [] {}, display));
  trainer->run();
  const Checkpoint checkpoint = load_checkpoint(checkpoint_path(folder.path(), kSaved));
  EXPECT_THROW(restore(checkpoint, testing::expected_identity(state), kSteps, *trainer), DataError);
}

TEST(LoadNewest, FindsNothingInAnEmptyFolder) {
  const TemporaryDirectory folder;
  EXPECT_FALSE(load_newest(folder.path()).has_value());
}

TEST(Restore, RefusesOtherRunsAndFewerSteps) {
  const TemporaryDirectory folder;
  train_and_save(folder);
  const std::unique_ptr<Trainer> trainer = make_small_trainer(small_run());
  const std::optional<Checkpoint> newest = load_newest(folder.path());
  ASSERT_TRUE(newest.has_value());
  CheckpointState other = state_of_run();
  other.seed = 9;
  EXPECT_THAT(message_of<UsageError>([&] { restore(*newest, testing::expected_identity(other), kSteps, *trainer); }),
              HasSubstr("seed '9'"));
  EXPECT_THAT(
      message_of<UsageError>([&] { restore(*newest, testing::expected_identity(state_of_run()), 3, *trainer); }),
      AllOf(HasSubstr("--max_steps 3"), HasSubstr("4 or more")));
}

TEST(BeginFrom, TakesParametersAndStateAndNothingElse) {
  const TemporaryDirectory folder;
  train_and_save(folder);
  const Checkpoint checkpoint = load_checkpoint(checkpoint_path(folder.path(), kSaved));
  const std::unique_ptr<Trainer> trainer = make_small_trainer(small_run());
  const std::vector<float> initial(trainer->parameters().begin(), trainer->parameters().end());
  begin_from(checkpoint, WarmStart::kAll, *trainer);
  EXPECT_NE(bits_of(trainer->parameters()), bits_of(initial));
  EXPECT_EQ(bits_of(trainer->parameters()), bits_of(trainer->ema().shadow()));
  // All workers and the average start with the first worker's moving statistics.
  const Layout& layout = trainer->net().state_layout();
  std::vector<float> first(static_cast<std::size_t>(layout.flat_elements()));
  checkpoint.read_group(worker_state_group(0), layout, first);
  for (int worker = 0; worker < 2; ++worker) EXPECT_EQ(bits_of(trainer->state(worker)), bits_of(first));
  EXPECT_EQ(bits_of(trainer->state_ema().shadow()), bits_of(first));
  for (const Optimizer::Slot& slot : trainer->slots()) EXPECT_THAT(slot.values, ::testing::Each(0.0f));
  EXPECT_EQ(trainer->run(), kSteps);  // starts at step 0
}

TEST(BeginFrom, NeedsTheStateOfANetThatHasState) {
  const TemporaryDirectory folder;
  const std::unique_ptr<Trainer> trainer = make_small_trainer(small_run());
  CheckpointView view;
  view.layout = &trainer->net().layout();
  view.groups = {{.name = "parameters", .values = trainer->parameters()}};
  const Checkpoint checkpoint = load_checkpoint(save_checkpoint(folder.path(), view));
  EXPECT_THAT(message_of<DataError>([&] { begin_from(checkpoint, WarmStart::kAll, *trainer); }),
              HasSubstr("state/worker-0000"));
}

}  // namespace
}  // namespace terngrad::training_state_test
