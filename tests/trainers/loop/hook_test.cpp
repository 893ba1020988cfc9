#include "trainers/loop/hook.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <memory>
#include <utility>
#include <vector>

#include "kernels/runtime/errors.h"
#include "tests/trainers/small_training.h"

namespace terngrad::hook_test {
namespace {

using ::testing::ElementsAre;
using ::testing::IsEmpty;

/// Steps at which `hook` calls its function, in a run of `last` steps.
template <class MakeHook>
std::vector<std::uint64_t> calls_of(const MakeHook& make_hook, std::uint64_t last, HookVerdict verdict,
                                    std::vector<std::uint64_t>* stops = nullptr) {
  std::vector<std::uint64_t> calls;
  const std::unique_ptr<Hook> hook = make_hook([&](const TrainingView& training, const StepView& step) {
    EXPECT_EQ(step.step + 1, training.steps_done);
    calls.push_back(training.steps_done);
    return verdict;
  });
  testing::IdentityNet net(2);
  const ExchangeReport report;
  for (std::uint64_t done = 1; done <= last; ++done) {
    const TrainingView training{.net = net, .parameters = {}, .ema = {}, .slots = {}, .steps_done = done};
    const StepView step{.step = done - 1, .report = report, .telemetry = {}};
    if (hook->after_step(training, step) == HookVerdict::kStop && stops != nullptr) stops->push_back(done);
  }
  return calls;
}

TEST(Hook, EveryStepsCountsFromOne) {
  const auto every = [](std::uint64_t n) { return [n](StepFunction f) { return every_steps(n, std::move(f)); }; };
  EXPECT_THAT(calls_of(every(3), 10, HookVerdict::kContinue), ElementsAre(3, 6, 9));
  EXPECT_THAT(calls_of(every(1), 3, HookVerdict::kContinue), ElementsAre(1, 2, 3));
  EXPECT_THAT(calls_of(every(11), 10, HookVerdict::kContinue), IsEmpty());
  EXPECT_THROW(every_steps(0, {}), InvalidArgument);
}

TEST(Hook, AtStepComesOnce) {
  const auto at = [](std::uint64_t n) { return [n](StepFunction f) { return at_step(n, std::move(f)); }; };
  EXPECT_THAT(calls_of(at(4), 12, HookVerdict::kContinue), ElementsAre(4));
  EXPECT_THAT(calls_of(at(13), 12, HookVerdict::kContinue), IsEmpty());
}

TEST(Hook, RunsOnTheChiefUnlessToldOtherwise) {
  EXPECT_FALSE(every_steps(1, {})->on_every_rank());
  EXPECT_FALSE(at_step(1, {})->on_every_rank());
  EXPECT_TRUE(every_steps(1, {}, HookRanks::kEvery)->on_every_rank());
  EXPECT_TRUE(at_step(1, {}, HookRanks::kEvery)->on_every_rank());
}

TEST(Hook, VerdictIsPassedOnOnlyWhenCalled) {
  std::vector<std::uint64_t> stops;
  calls_of([](StepFunction f) { return every_steps(4, std::move(f)); }, 9, HookVerdict::kStop, &stops);
  EXPECT_THAT(stops, ElementsAre(4, 8));
  stops.clear();
  calls_of([](StepFunction f) { return at_step(2, std::move(f)); }, 9, HookVerdict::kContinue, &stops);
  EXPECT_THAT(stops, IsEmpty());
}

TEST(Hook, DefaultsDoNothing) {
  class Empty final : public Hook {
  } hook;
  testing::IdentityNet net(2);
  const TrainingView training{.net = net, .parameters = {}, .ema = {}, .slots = {}};
  const ExchangeReport report;
  hook.before_train(training);
  EXPECT_EQ(hook.after_step(training, {.report = report, .telemetry = {}}), HookVerdict::kContinue);
  hook.after_train(training);
  EXPECT_FALSE(hook.on_every_rank());
}

}  // namespace
}  // namespace terngrad::hook_test
