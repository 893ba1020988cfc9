#include "trainers/hooks/stop_hook.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <csignal>
#include <limits>

#include "kernels/runtime/errors.h"
#include "tests/trainers/small_training.h"

namespace terngrad::stop_hook_test {
namespace {

using testing::make_small_trainer;
using testing::SmallRun;

/// Number of steps of a six-step run with a stop hook, and a hook that calls `at_third` after step 3.
std::uint64_t steps_done(double stop_after_seconds, const std::function<void()>& at_third) {
  ProgressDisplay display(stderr, ProgressDisplay::Mode::kLog);
  const auto trainer = make_small_trainer(SmallRun{});
  trainer->add_hook(at_step(3, [&](const TrainingView&, const StepView&) {
    at_third();
    return HookVerdict::kContinue;
  }));
  const StopSignal signal;
  trainer->add_hook(make_stop_hook(signal, stop_after_seconds, display));
  return trainer->run();
}

TEST(StopHook, StopsAfterTheTime) {
  EXPECT_EQ(steps_done(1e-9, [] {}), 1u);
  EXPECT_EQ(steps_done(0, [] {}), 6u);
  EXPECT_EQ(steps_done(1e9, [] {}), 6u);
}

TEST(StopHook, StopsAfterTheStepOfASignal) {
  for (const int signal : {SIGINT, SIGTERM}) {
    EXPECT_EQ(steps_done(0, [signal] { std::raise(signal); }), 3u);
  }
}

TEST(StopHook, ImpossibleTimesAreRefused) {
  ProgressDisplay display(stderr, ProgressDisplay::Mode::kLog);
  const StopSignal signal;
  EXPECT_THROW(make_stop_hook(signal, -1, display), InvalidArgument);
  EXPECT_THROW(make_stop_hook(signal, std::numeric_limits<double>::quiet_NaN(), display), InvalidArgument);
}

}  // namespace
}  // namespace terngrad::stop_hook_test
