#include "trainers/loop/training_control.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <memory>
#include <string>
#include <vector>

#include "kernels/runtime/errors.h"
#include "tests/support/thread_communicator.h"
#include "tests/trainers/small_training.h"
#include "trainers/loop/hook.h"

namespace terngrad::training_control_test {
namespace {

using ::testing::Each;
using ::testing::ElementsAre;
using ::testing::HasSubstr;
using testing::make_small_trainer;
using testing::message_of;
using testing::SmallRun;
using testing::state_bits;

TEST(TrainingControl, GivesTensorsByName) {
  Layout layout;
  layout.add("conv1/weights", {2});
  layout.add("conv2/weights", {3});
  std::vector<float> parameters(static_cast<std::size_t>(layout.flat_elements()));
  std::vector<float> ema = parameters;
  std::vector<bool> frozen(2);
  const TrainingControl control(layout, 7, parameters, ema, frozen);
  EXPECT_EQ(control.steps_done(), 7u);
  EXPECT_EQ(control.parameters("conv2/weights").size(), 3u);
  control.parameters("conv2/weights")[1] = 5;
  control.average("conv1/weights")[0] = 2;
  EXPECT_EQ(parameters[static_cast<std::size_t>(layout.segment(1).offset) + 1], 5);
  EXPECT_EQ(ema[0], 2);
  control.freeze("conv*");
  control.thaw("conv?/weights");
  control.freeze("*2/*");
  EXPECT_THAT(frozen, ElementsAre(false, true));
  EXPECT_THAT(message_of<InvalidArgument>([&] { control.freeze("fc*"); }),
              HasSubstr("no tensor matches 'fc*'; there are: conv1/weights, conv2/weights"));
  EXPECT_THROW(control.average("conv*"), InvalidArgument);
}

/// Sets conv1's biases to 3 before step 2, and freezes them.
std::unique_ptr<Hook> set_biases() {
  return before_step(2, [](TrainingControl& control) {
    EXPECT_EQ(control.steps_done(), 2u);
    std::ranges::fill(control.parameters("conv1/biases"), 3.0f);
    control.freeze("conv1/biases");
  });
}

std::span<const float> biases_of(Trainer& trainer) {
  const Layout& layout = trainer.net().layout();
  for (const Segment& segment : layout.segments()) {
    if (segment.name != "conv1/biases") continue;
    return trainer.parameters().subspan(static_cast<std::size_t>(segment.offset),
                                        static_cast<std::size_t>(segment.num_elements));
  }
  return {};
}

TEST(TrainingControl, ChangesTheRunAlikeOnAnyNumberOfRanks) {
  SmallRun run{.num_workers = 4, .codec = "ternary"};
  const auto alone = make_small_trainer(run);
  alone->add_hook(set_biases());
  alone->run();
  EXPECT_THAT(biases_of(*alone), Each(3.0f));
  testing::run_ranks(2, [&](const std::shared_ptr<Communicator>& communicator) {
    SmallRun of_rank = run;
    of_rank.communicator = communicator;
    const auto trainer = make_small_trainer(of_rank);
    trainer->add_hook(set_biases());
    trainer->run();
    EXPECT_EQ(testing::bits_of(trainer->parameters()), testing::bits_of(alone->parameters()));
  });
}

TEST(TrainingControl, OfAHookThatIsNotOnEveryRankIsRefused) {
  class OnChief final : public Hook {
   public:
    std::uint64_t next_change_step(std::uint64_t steps_done) const override { return steps_done; }
  };
  const auto trainer = make_small_trainer(SmallRun{});
  trainer->add_hook(std::make_unique<OnChief>());
  EXPECT_THAT(message_of<InvalidArgument>([&] { trainer->run(); }), HasSubstr("must run on every rank"));
}

TEST(TrainingControl, DoesNotReachServersThatUpdateParameters) {
  SmallRun run{.num_workers = 2};
  run.owners = ShardOwners::kServers;
  run.pulls_parameters = true;
  run.num_servers = 0;
  const auto trainer = make_small_trainer(run);
  trainer->add_hook(set_biases());
  EXPECT_THROW(trainer->run(), NotSupported);
}

}  // namespace
}  // namespace terngrad::training_control_test
