#include "trainers/hooks/net_state.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <filesystem>
#include <memory>
#include <string>
#include <vector>

#include "kernels/runtime/errors.h"
#include "tests/nets/branched_net.h"
#include "tests/support/bits.h"
#include "tests/trainers/small_training.h"
#include "tests/trainers/temporary_directory.h"
#include "trainers/hooks/state_gather.h"

namespace terngrad::net_state_test {
namespace {

using testing::bits_of;
using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::IsEmpty;
using testing::make_small_trainer;
using testing::message_of;
using testing::SmallRun;
using testing::TemporaryDirectory;

const SmallRun kRun{.num_workers = 2, .total_steps = 2, .net = test::branched_net(0.6f)};

/// Checkpoint with parameters and state after the first step of a run.
Checkpoint checkpoint_of(Trainer& trainer, const TemporaryDirectory& folder) {
  std::filesystem::path path;
  trainer.add_hook(at_step(1, [&](const TrainingView& training, const StepView&) {
    CheckpointView view;
    view.layout = &training.net.layout();
    const std::vector<Buffer<float>> states = gather_states(training);
    view.groups = state_groups(training, states);
    view.groups.push_back({.name = "parameters", .values = training.parameters});
    path = save_checkpoint(folder.path(), view);
    return HookVerdict::kStop;
  }));
  trainer.run();
  return load_checkpoint(path);
}

TEST(StateGroups, AreThoseOfEveryWorkerAndTheAverage) {
  const std::unique_ptr<Trainer> trainer = make_small_trainer(kRun);
  std::vector<std::string> names;
  trainer->add_hook(at_step(1, [&](const TrainingView& training, const StepView&) {
    const std::vector<Buffer<float>> states = gather_states(training);
    for (const CheckpointGroup& group : state_groups(training, states)) {
      names.push_back(group.name);
      EXPECT_EQ(group.layout, &training.net.state_layout());
    }
    return HookVerdict::kContinue;
  }));
  trainer->run();
  EXPECT_THAT(names, ElementsAre("state/worker-0000", "state/worker-0001", "ema_state"));
  EXPECT_EQ(worker_state_group(12345), "state/worker-12345");
}

TEST(StateGroups, AreNoneWithoutState) {
  const std::unique_ptr<Trainer> trainer = make_small_trainer({.simple = true, .total_steps = 1});
  trainer->add_hook(at_step(1, [&](const TrainingView& training, const StepView&) {
    EXPECT_THAT(state_groups(training, {}), IsEmpty());
    return HookVerdict::kContinue;
  }));
  const TemporaryDirectory folder;
  const Checkpoint checkpoint = checkpoint_of(*trainer, folder);
  EXPECT_FALSE(checkpoint.has_group("state"));
  EXPECT_FALSE(checkpoint.has_group(kEmaStateGroup));
  restore_states(checkpoint, *trainer);
  EXPECT_EQ(load_evaluation_state(checkpoint, trainer->net(), true).num_elements(), 0);
}

TEST(RestoreStates, ReadsBackWhatWasSaved) {
  const TemporaryDirectory folder;
  const std::unique_ptr<Trainer> saved = make_small_trainer(kRun);
  const Checkpoint checkpoint = checkpoint_of(*saved, folder);
  const std::unique_ptr<Trainer> restored = make_small_trainer(kRun);
  EXPECT_NE(bits_of(restored->state(1)), bits_of(saved->state(1)));
  restore_states(checkpoint, *restored);
  for (const int worker : {0, 1}) EXPECT_EQ(bits_of(restored->state(worker)), bits_of(saved->state(worker)));
  EXPECT_EQ(bits_of(restored->state_ema().shadow()), bits_of(saved->state_ema().shadow()));
}

TEST(LoadEvaluationState, GoesWithTheParameters) {
  const TemporaryDirectory folder;
  const std::unique_ptr<Trainer> trainer = make_small_trainer(kRun);
  const Checkpoint checkpoint = checkpoint_of(*trainer, folder);
  EXPECT_EQ(bits_of(load_evaluation_state(checkpoint, trainer->net(), false).span()), bits_of(trainer->state(0)));
  EXPECT_EQ(bits_of(load_evaluation_state(checkpoint, trainer->net(), true).span()),
            bits_of(trainer->state_ema().shadow()));
  EXPECT_NE(bits_of(trainer->state(0)), bits_of(trainer->state_ema().shadow()));
}

TEST(LoadEvaluationState, ACheckpointWithoutItIsRefused) {
  const TemporaryDirectory folder;
  const std::unique_ptr<Trainer> lenet = make_small_trainer({.simple = true, .total_steps = 1});
  const Checkpoint checkpoint = checkpoint_of(*lenet, folder);
  const std::unique_ptr<Trainer> trainer = make_small_trainer(kRun);
  EXPECT_THAT(message_of<DataError>([&] { load_evaluation_state(checkpoint, trainer->net(), true); }),
              HasSubstr("ema_state/stem_norm/moving_mean"));
  EXPECT_THAT(message_of<DataError>([&] { restore_states(checkpoint, *trainer); }),
              HasSubstr("state/worker-0000/stem_norm/moving_mean"));
}

}  // namespace
}  // namespace terngrad::net_state_test
