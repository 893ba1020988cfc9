#include "trainers/loop/noop_trainer.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <vector>

#include "tests/trainers/small_training.h"
#include "trainers/loop/training_control.h"

namespace terngrad::noop_trainer_test {
namespace {

NoopTrainer noop_trainer(std::uint64_t total_steps) {
  auto net = std::make_unique<testing::IdentityNet>(5);
  auto optimizer = make_optimizer("momentum", {}, net->layout().flat_elements());
  return {std::move(net), std::move(optimizer), {.initial_rate = 0.25}, {.total_steps = total_steps}};
}

TEST(NoopTrainer, CallsHooksAndChangesNothing) {
  NoopTrainer trainer = noop_trainer(5);
  std::vector<std::uint64_t> steps;
  trainer.add_hook(every_steps(2, [&](const TrainingView& training, const StepView& step) {
    steps.push_back(training.steps_done);
    EXPECT_TRUE(step.report.skipped);
    EXPECT_EQ(step.loss, 0);
    EXPECT_EQ(step.learning_rate, 0.25);
    return HookVerdict::kContinue;
  }));
  EXPECT_EQ(trainer.run(), 5u);
  EXPECT_EQ(steps, (std::vector<std::uint64_t>{2, 4}));
  EXPECT_TRUE(std::ranges::all_of(trainer.parameters(), [](float value) { return value == 0; }));
}

TEST(NoopTrainer, HooksChangeParametersAndStop) {
  NoopTrainer trainer = noop_trainer(5);
  trainer.add_hook(before_step(1, [](TrainingControl& run) { std::ranges::fill(run.parameters("b"), 2.0f); }));
  trainer.add_hook(at_step(3, [](const TrainingView& training, const StepView&) {
    EXPECT_EQ(training.parameters[static_cast<std::size_t>(training.net.layout().segment(1).offset)], 2);
    return HookVerdict::kStop;
  }));
  EXPECT_EQ(trainer.run(), 3u);
}

}  // namespace
}  // namespace terngrad::noop_trainer_test
