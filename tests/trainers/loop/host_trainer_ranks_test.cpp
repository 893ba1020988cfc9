// Runs over several ranks (here threads): results, reports and stops equal those of one rank.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <memory>
#include <mutex>
#include <optional>
#include <string>
#include <vector>

#include "kernels/runtime/errors.h"
#include "tests/nets/branched_net.h"
#include "tests/support/bits.h"
#include "tests/support/thread_communicator.h"
#include "tests/trainers/expected_identity.h"
#include "tests/trainers/small_training.h"
#include "tests/trainers/temporary_directory.h"
#include "trainers/hooks/checkpoint_hook.h"
#include "trainers/hooks/state_gather.h"
#include "trainers/run/training_state.h"

namespace terngrad::host_trainer_ranks_test {
namespace {

using testing::bits_of;
using ::testing::Each;
using ::testing::ElementsAre;
using ::testing::HasSubstr;
using testing::make_small_trainer;
using testing::run_ranks;
using testing::SmallRun;
using testing::TemporaryDirectory;

/// Final state and reports of a run, without times.
struct Result {
  std::vector<std::uint32_t> parameters, ema, slots;
  std::vector<std::vector<std::uint32_t>> states;  // per worker
  std::vector<double> losses, accuracies;
  std::vector<std::int64_t> sent, received;

  friend bool operator==(const Result&, const Result&) = default;
};

/// Adds hooks to each rank's trainer before it runs.
using AddHooks = std::function<void(Trainer&, bool is_chief)>;

/// Runs on `size` ranks and compares their parameters.
Result result_of(SmallRun run, int size, const AddHooks& add_hooks = {}) {
  Result result;
  std::mutex mutex;
  std::vector<std::vector<std::uint32_t>> states(static_cast<std::size_t>(run.num_workers));
  std::vector<std::vector<std::uint32_t>> parameters(static_cast<std::size_t>(size));
  const auto errors = run_ranks(size, [&](const std::shared_ptr<Communicator>& communicator) {
    SmallRun own = run;
    own.communicator = communicator;
    const std::unique_ptr<Trainer> trainer = make_small_trainer(own);
    if (add_hooks) add_hooks(*trainer, communicator->rank() == 0);
    trainer->add_hook(every_steps(1, [&](const TrainingView&, const StepView& step) {
      result.losses.push_back(step.loss);
      result.accuracies.push_back(step.accuracy);
      result.sent.push_back(step.report.sent_bytes());
      result.received.push_back(step.report.received_bytes());
      return HookVerdict::kContinue;
    }));
    trainer->run();
    const std::lock_guard lock(mutex);
    parameters[static_cast<std::size_t>(communicator->rank())] = bits_of(trainer->parameters());
    for (int worker = 0; worker < trainer->num_local_workers(); ++worker) {
      states[static_cast<std::size_t>(trainer->first_local_worker() + worker)] = bits_of(trainer->state(worker));
    }
    if (communicator->rank() != 0) return;
    result.ema = bits_of(trainer->ema().shadow());
    for (const Optimizer::Slot& slot : trainer->slots()) result.slots = bits_of(slot.values);
  });
  for (const std::exception_ptr& error : errors) {
    if (error) std::rethrow_exception(error);
  }
  EXPECT_THAT(parameters, Each(parameters[0]));
  result.parameters = parameters[0];
  result.states = states;
  return result;
}

// Contract B3.
TEST(HostTrainerRanks, ChangeNothing) {
  for (const char* codec : {"fp32", "bf16", "ternary"}) {
    const SmallRun run{.num_workers = 4, .codec = codec, .total_steps = 4};
    const Result one = result_of(run, 1);
    for (const int size : {2, 3, 4}) EXPECT_TRUE(result_of(run, size) == one) << codec << " " << size;
  }
}

TEST(HostTrainerRanks, ChangeNothingOfDropoutAndMovingStatistics) {
  const SmallRun run{
      .num_workers = 4, .codec = "ternary", .total_steps = 3, .batch_size = 4, .net = test::branched_net(0.6f)};
  const Result one = result_of(run, 1);
  for (const int size : {2, 3, 4}) EXPECT_TRUE(result_of(run, size) == one) << size;
}

TEST(HostTrainerRanks, OnlyTheChiefRunsHooksThatDoNotAskForEveryRank) {
  class Counter final : public Hook {
   public:
    Counter(int& calls, std::mutex& mutex, bool everywhere) : calls_(calls), mutex_(mutex), everywhere_(everywhere) {}
    void before_train(const TrainingView&) override { count(); }
    HookVerdict after_step(const TrainingView&, const StepView&) override {
      count();
      return HookVerdict::kContinue;
    }
    void after_train(const TrainingView&) override { count(); }
    bool on_every_rank() const override { return everywhere_; }

   private:
    void count() {
      const std::lock_guard lock(mutex_);
      ++calls_;
    }
    int& calls_;
    std::mutex& mutex_;
    bool everywhere_;
  };
  std::mutex mutex;
  int chief = 0;
  int everywhere = 0;
  result_of({.num_workers = 2, .total_steps = 2}, 2, [&](Trainer& trainer, bool) {
    trainer.add_hook(std::make_unique<Counter>(chief, mutex, false));
    trainer.add_hook(std::make_unique<Counter>(everywhere, mutex, true));
  });
  EXPECT_EQ(chief, 4);
  EXPECT_EQ(everywhere, 8);
}

TEST(HostTrainerRanks, StopTogetherAfterTheStepAfterTheOneThatAsked) {
  for (const bool by_chief : {true, false}) {
    std::mutex mutex;
    std::vector<std::uint64_t> steps;
    run_ranks(3, [&](const std::shared_ptr<Communicator>& communicator) {
      SmallRun run{.num_workers = 3, .total_steps = 9, .batch_size = 9};
      run.communicator = communicator;
      const std::unique_ptr<Trainer> trainer = make_small_trainer(run);
      const bool asks = by_chief == (communicator->rank() == 0) && communicator->rank() != 1;
      trainer->add_hook(every_steps(
          1,
          [&](const TrainingView& training, const StepView&) {
            EXPECT_EQ(training.stop_delay, 1u);
            return asks && training.steps_done == 4 ? HookVerdict::kStop : HookVerdict::kContinue;
          },
          HookRanks::kEvery));
      const std::uint64_t done = trainer->run();
      const std::lock_guard lock(mutex);
      steps.push_back(done);
    });
    EXPECT_THAT(steps, ElementsAre(5, 5, 5));
  }
}

// Contract B4, also with another number of ranks.
TEST(HostTrainerRanks, ContinueFromEachOthersCheckpoints) {
  const SmallRun run{
      .num_workers = 4, .codec = "ternary", .total_steps = 5, .batch_size = 4, .net = test::branched_net(0.6f)};
  const Result whole = result_of(run, 1);
  CheckpointState state;
  state.net = "branched";
  ProgressDisplay display(stderr, ProgressDisplay::Mode::kSilent);
  std::vector<std::byte> saved;
  for (const int saving : {1, 2, 4}) {
    const TemporaryDirectory folder;
    result_of(run, saving, [&](Trainer& trainer, bool is_chief) {
      if (is_chief) {
        trainer.add_hook(std::make_unique<CheckpointHook>(
            CheckpointHookOptions{.folder = Folder(folder.path()), .save_steps = 2}, state, [] {}, display));
      } else {
        trainer.add_hook(make_state_sender_hook({.save_steps = 2}));
      }
    });
    const Checkpoint checkpoint = load_checkpoint(checkpoint_path(folder.path(), 2));
    const std::vector<std::byte> content(checkpoint.content().begin(), checkpoint.content().end());
    if (saved.empty()) saved = content;
    EXPECT_TRUE(content == saved) << saving;
    EXPECT_EQ(list_checkpoints(folder.path()).size(), 3u);  // steps 2, 4 and the last one
    for (const int going_on : {1, 3}) {
      const Result resumed = result_of(run, going_on, [&](Trainer& trainer, bool) {
        restore(checkpoint, testing::expected_identity(state), run.total_steps, trainer);
      });
      EXPECT_TRUE(resumed.parameters == whole.parameters && resumed.states == whole.states &&
                  resumed.ema == whole.ema && resumed.slots == whole.slots)
          << saving << " " << going_on;
    }
  }
}

TEST(HostTrainerRanks, AFailureOfOneEndsAll) {
  int failed = 0;
  for (const std::exception_ptr& error : run_ranks(2, [](const std::shared_ptr<Communicator>& communicator) {
         SmallRun run{.num_workers = 2, .total_steps = 9};
         run.communicator = communicator;
         const std::unique_ptr<Trainer> trainer = make_small_trainer(run);
         trainer->add_hook(at_step(
             2, [](const TrainingView&, const StepView&) -> HookVerdict { throw DataError("the medium is gone"); }));
         trainer->run();
       })) {
    if (error) ++failed;
  }
  EXPECT_EQ(failed, 2);
}

}  // namespace
}  // namespace terngrad::host_trainer_ranks_test
