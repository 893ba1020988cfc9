#include "trainers/hooks/replica_check.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <mutex>
#include <string>
#include <vector>

#include "kernels/runtime/errors.h"
#include "tests/support/thread_communicator.h"
#include "tests/trainers/small_training.h"

namespace terngrad::replica_check_test {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::IsEmpty;
using testing::make_small_trainer;
using testing::run_ranks;
using testing::SmallRun;

/// Changes the memory of one rank after a step.
using Damage = std::function<void(Trainer&)>;

/// Error messages of the ranks of a six-step run with a check every second step. Rank 1's memory is damaged after step
/// 3.
std::vector<std::string> messages_after(const Damage& damage, std::uint64_t rebroadcast_steps = 0) {
  std::mutex mutex;
  std::vector<std::string> messages;
  run_ranks(3, [&](const std::shared_ptr<Communicator>& communicator) {
    SmallRun run{.num_workers = 3, .codec = "ternary", .total_steps = 6, .batch_size = 6};
    run.communicator = communicator;
    run.rebroadcast_steps = rebroadcast_steps;
    const std::unique_ptr<Trainer> trainer = make_small_trainer(run);
    trainer->add_hook(make_replica_check_hook(2));
    trainer->add_hook(at_step(
        3,
        [&](const TrainingView&, const StepView&) {
          if (communicator->rank() == 1) damage(*trainer);
          return HookVerdict::kContinue;
        },
        HookRanks::kEvery));
    try {
      EXPECT_EQ(trainer->run(), 6u);
    } catch (const Error& error) {
      const std::lock_guard lock(mutex);
      messages.emplace_back(error.what());
    }
  });
  return messages;
}

TEST(ReplicaCheck, IsSilentAboutEqualReplicas) {
  EXPECT_THAT(messages_after([](Trainer&) {}), IsEmpty());
}

TEST(ReplicaCheck, NamesTheTensorAndTheRank) {
  const auto flip_parameter = [](Trainer& trainer) {
    const Segment& segment = trainer.net().layout().segment(trainer.net().layout().find("conv2/weights"));
    trainer.parameters()[static_cast<std::size_t>(segment.offset) + 5] += 1e-6f;
  };
  const auto in_order = [](const std::string& tensor) {
    return HasSubstr("step 4: the replicas have drifted apart: tensor '" + tensor +
                     "' of rank 1 is not that of rank 0");
  };
  // The wrong parameter changes other tensors in the next step, before the check.
  EXPECT_THAT(messages_after(flip_parameter), ::testing::Each(::testing::AnyOf(in_order("parameters/conv1/weights"),
                                                                               in_order("parameters/conv2/weights"))));
  EXPECT_EQ(messages_after(flip_parameter).size(), 3u);
  const auto flip_average = [](Trainer& trainer) { trainer.ema().shadow()[0] += 1; };
  EXPECT_THAT(messages_after(flip_average),
              ElementsAre(in_order("ema/conv1/weights"), in_order("ema/conv1/weights"), in_order("ema/conv1/weights")));
}

TEST(ReplicaCheck, FindsNothingAfterParametersWereSentAgain) {
  const auto flip_all = [](Trainer& trainer) {
    trainer.parameters()[0] += 1;
    trainer.ema().shadow()[0] += 1;
    for (const Optimizer::Slot& slot : trainer.slots()) slot.values[0] += 1;
  };
  EXPECT_EQ(messages_after(flip_all).size(), 3u);
  EXPECT_THAT(messages_after(flip_all, 4), IsEmpty());
}

TEST(ReplicaCheck, RefusesNoSteps) { EXPECT_THROW(make_replica_check_hook(0), InvalidArgument); }

}  // namespace
}  // namespace terngrad::replica_check_test
