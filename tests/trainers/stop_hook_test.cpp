#include "trainers/stop_hook.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <csignal>
#include <limits>

#include "kernels/errors.h"
#include "tests/trainers/small_training.h"

namespace terngrad {
namespace {

using testing::make_small_trainer;
using testing::SmallRun;

/// Steps that a run of 6 does with a stop hook, and a hook that calls `at_third` after the third.
std::uint64_t steps_done(double stop_after_seconds, const std::function<void()>& at_third) {
  ProgressDisplay display(stderr, ProgressDisplay::Mode::kLog);
  const auto trainer = make_small_trainer(SmallRun{});
  trainer->add_hook(at_step(3, [&](const TrainingView&, const StepView&) {
    at_third();
    return HookVerdict::kContinue;
  }));
  trainer->add_hook(make_stop_hook(display, stop_after_seconds));
  return trainer->run();
}

TEST(StopHook, StopsAfterTheTime) {
  EXPECT_EQ(steps_done(1e-9, [] {}), 1u);
  EXPECT_EQ(steps_done(0, [] {}), 6u);
  EXPECT_EQ(steps_done(1e9, [] {}), 6u);
}

TEST(StopHook, StopsAfterTheStepOfASignal) {
  for (const int signal : {SIGINT, SIGTERM}) {
    const StopSignals signals;
    EXPECT_EQ(StopSignals::received(), 0);
    EXPECT_EQ(steps_done(0, [signal] { std::raise(signal); }), 3u);
    EXPECT_EQ(StopSignals::received(), signal);
  }
}

TEST(StopSignals, SecondSignalEndsTheProcess) {
  EXPECT_EXIT(
      {
        const StopSignals signals;
        std::raise(SIGTERM);
        std::raise(SIGTERM);
      },
      ::testing::KilledBySignal(SIGTERM), "");
}

TEST(StopSignals, HandlersArePutBack) {
  const auto before = std::signal(SIGINT, SIG_IGN);
  { const StopSignals signals; }
  EXPECT_EQ(std::signal(SIGINT, before), SIG_IGN);
}

TEST(StopSignals, HaveNames) {
  EXPECT_STREQ(signal_name(SIGINT), "SIGINT");
  EXPECT_STREQ(signal_name(SIGTERM), "SIGTERM");
  EXPECT_STREQ(signal_name(SIGHUP), "a signal");
}

TEST(StopHook, ImpossibleTimesAreRefused) {
  ProgressDisplay display(stderr, ProgressDisplay::Mode::kLog);
  EXPECT_THROW(make_stop_hook(display, -1), InvalidArgument);
  EXPECT_THROW(make_stop_hook(display, std::numeric_limits<double>::quiet_NaN()), InvalidArgument);
}

}  // namespace
}  // namespace terngrad
