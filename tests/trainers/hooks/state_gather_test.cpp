#include "trainers/hooks/state_gather.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <vector>

#include "kernels/runtime/errors.h"
#include "tests/nets/branched_net.h"
#include "tests/support/bits.h"
#include "tests/support/thread_communicator.h"
#include "tests/trainers/small_training.h"

namespace terngrad::state_gather_test {
namespace {

using testing::bits_of;
using ::testing::ElementsAre;
using ::testing::IsEmpty;
using testing::make_small_trainer;
using testing::run_ranks;
using testing::SmallRun;

/// Bits of all workers' states after a step, as each rank gathers them.
std::vector<std::vector<std::uint32_t>> gathered_by(int size, const SmallRun& run) {
  std::vector<std::vector<std::vector<std::uint32_t>>> of_rank(static_cast<std::size_t>(size));
  run_ranks(size, [&](const std::shared_ptr<Communicator>& communicator) {
    SmallRun own = run;
    own.communicator = communicator;
    const std::unique_ptr<Trainer> trainer = make_small_trainer(own);
    trainer->add_hook(at_step(
        1,
        [&](const TrainingView& training, const StepView&) {
          for (const Buffer<float>& state : gather_states(training)) {
            of_rank[static_cast<std::size_t>(communicator->rank())].push_back(bits_of(state.span()));
          }
          return HookVerdict::kContinue;
        },
        HookRanks::kEvery));
    trainer->run();
  });
  EXPECT_THAT(of_rank, ::testing::Each(of_rank[0]));
  return of_rank[0];
}

TEST(GatherStates, GivesEveryWorkersInOrder) {
  const SmallRun run{.num_workers = 4, .total_steps = 1, .batch_size = 4, .net = test::branched_net(0.6f)};
  const auto one = gathered_by(1, run);
  ASSERT_EQ(one.size(), 4u);
  EXPECT_NE(one[0], one[3]);
  EXPECT_EQ(gathered_by(3, run), one);
}

TEST(GatherStates, SendsNothingForANetWithoutState) {
  EXPECT_THAT(gathered_by(2, {.num_workers = 2, .total_steps = 1}), IsEmpty());
}

TEST(GatherKept, GivesTheFirstRankEveryWorkersInOrder) {
  for (const int size : {1, 2, 3}) {
    std::vector<std::vector<float>> first;
    const auto errors = run_ranks(size, [&](const std::shared_ptr<Communicator>& communicator) {
      const WorkerGroup workers = make_worker_group(4, communicator);
      testing::IdentityNet net(2);
      std::vector<std::vector<float>> own;
      TrainingView training{.net = net, .parameters = {}, .ema = {}, .slots = {}};
      training.num_workers = workers.num_workers;
      training.services.communicator = communicator.get();
      training.memories.layout = &net.layout();
      for (int w = 0; w < workers.num_local_workers; ++w) {
        own.emplace_back(static_cast<std::size_t>(net.layout().flat_elements()),
                         static_cast<float>(workers.first_local_worker + w));
      }
      for (std::vector<float>& state : own) training.memories.of_workers.emplace_back(state);
      for (const Buffer<float>& state : gather_memories(training)) {
        ASSERT_EQ(communicator->rank(), 0);
        first.emplace_back(state.span().begin(), state.span().end());
      }
    });
    for (const auto& error : errors) EXPECT_FALSE(error);
    ASSERT_EQ(first.size(), 4u);
    for (std::size_t w = 0; w < 4; ++w) EXPECT_THAT(first[w], ::testing::Each(static_cast<float>(w)));
  }
}

TEST(GatherKept, GivesNothingWhereNothingIsKept) {
  testing::IdentityNet net(2);
  EXPECT_THAT(gather_memories({.net = net, .parameters = {}, .ema = {}, .slots = {}}), IsEmpty());
}

TEST(StateSenderHook, SendsWhenACheckpointIsDue) {
  std::vector<std::uint64_t> received;
  const auto errors = run_ranks(2, [&](const std::shared_ptr<Communicator>& communicator) {
    SmallRun run{.num_workers = 2, .total_steps = 5, .batch_size = 4, .net = test::branched_net(0.6f)};
    run.communicator = communicator;
    const std::unique_ptr<Trainer> trainer = make_small_trainer(run);
    // Prints the chief's times.
    class Chief final : public Hook {
     public:
      explicit Chief(std::vector<std::uint64_t>& steps) : steps_(steps) {}
      void before_train(const TrainingView& training) override { gather(training); }
      HookVerdict after_step(const TrainingView& training, const StepView&) override {
        if (training.steps_done % 2 == 0) gather(training);
        return HookVerdict::kContinue;
      }
      void after_train(const TrainingView& training) override { gather(training); }

     private:
      void gather(const TrainingView& training) {
        EXPECT_EQ(gather_states(training).size(), 2u);
        steps_.push_back(training.steps_done);
      }
      std::vector<std::uint64_t>& steps_;
    };
    if (communicator->rank() == 0) {
      trainer->add_hook(std::make_unique<Chief>(received));
    } else {
      trainer->add_hook(make_state_sender_hook({.save_steps = 2, .save_at_start = true}));
    }
    trainer->run();
  });
  for (const auto& error : errors) EXPECT_FALSE(error);
  EXPECT_THAT(received, ElementsAre(0, 2, 4, 5));
}

TEST(StateSenderHook, RefusesNoSteps) { EXPECT_THROW(make_state_sender_hook({.save_steps = 0}), InvalidArgument); }

}  // namespace
}  // namespace terngrad::state_gather_test
