#include "trainers/hooks/step_profile.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "kernels/runtime/errors.h"
#include "tests/trainers/fake_run.h"

namespace terngrad::step_profile_test {
namespace {

using testing::FakeRun;
using ::testing::HasSubstr;

ExchangeReport report_of(double scale) {
  ExchangeReport report;
  report.measure_seconds = 0.01 * scale;
  report.encode_seconds = 0.02 * scale;
  report.wire_seconds = 0.04 * scale;
  report.decode_seconds = 0.05 * scale;
  return report;
}

/// Parts of a step with a sum of 0.93 `scale` seconds, so that 0.07 remain.
StepView view_of(double scale, const ExchangeReport& report) {
  return {.step_seconds = scale,
          .compute_seconds = 0.5 * scale,
          .update_seconds = 0.13 * scale,
          .data_seconds = 0.2 * scale,
          .hidden_seconds = 0.03 * scale,
          .exposed_seconds = 0.1 * scale,
          .report = report,
          .telemetry = {}};
}

TEST(StepProfile, MeansLeaveTheFirstStepsOut) {
  StepProfile profile;
  const ExchangeReport slow = report_of(100);
  for (std::uint64_t i = 0; i < StepProfile::kWarmUpSteps; ++i) profile.add(view_of(100, slow));
  EXPECT_EQ(profile.num_steps(), 0u);
  const ExchangeReport one = report_of(1);
  const ExchangeReport three = report_of(3);
  profile.add(view_of(1, one));
  profile.add(view_of(3, three));
  EXPECT_EQ(profile.num_steps(), 2u);
  EXPECT_EQ(profile.to_text(),
            "profile: 2000.000 ms per step, mean of 2 (the first 3 are left out)\n"
            "  data                 400.000 ms   20.0 %\n"
            "  compute             1000.000 ms   50.0 %\n"
            "  exposed exchange     200.000 ms   10.0 %\n"
            "  update               260.000 ms   13.0 %\n"
            "  the rest             140.000 ms    7.0 %\n"
            "  hidden exchange       60.000 ms    3.0 %\n"
            "  - measure, encode     60.000 ms    3.0 %\n"
            "  - wire                80.000 ms    4.0 %\n"
            "  - decode             100.000 ms    5.0 %\n");
}

TEST(StepProfile, SaysThatNothingWasMeasured) {
  StepProfile profile;
  const ExchangeReport report;
  for (std::uint64_t i = 0; i < StepProfile::kWarmUpSteps; ++i) profile.add(view_of(1, report));
  EXPECT_EQ(profile.to_text(), "profile: no step was measured; the first 3 of a process are left out\n");
}

TEST(StepProfile, RefusesStepsWithoutTimes) {
  StepProfile profile;
  const ExchangeReport report;
  StepView view = view_of(1, report);
  view.parts_are_timed = false;
  EXPECT_THROW(profile.add(view), InvalidArgument);
}

TEST(ProfileHook, AddsEveryStepAndStopsNothing) {
  StepProfile profile;
  const auto hook = make_profile_hook(profile);
  FakeRun run;
  for (int i = 0; i < 5; ++i) EXPECT_EQ(run.step(*hook), HookVerdict::kContinue);
  EXPECT_EQ(profile.num_steps(), 2u);
  EXPECT_THAT(profile.to_text(), HasSubstr("profile: 250.000 ms per step, mean of 2 "));
  // Needs only numbers, so a GPU run does not wait for it.
  EXPECT_EQ(hook->next_sync_step(5), kNoSyncStep);
}

}  // namespace
}  // namespace terngrad::step_profile_test
