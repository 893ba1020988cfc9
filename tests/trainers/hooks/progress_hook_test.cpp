#include "trainers/hooks/progress_hook.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <limits>
#include <memory>
#include <string>
#include <vector>

#include "kernels/runtime/errors.h"
#include "tests/trainers/fake_run.h"
#include "tests/trainers/temporary_directory.h"
#include "trainers/hooks/interval.h"

namespace terngrad::progress_hook_test {
namespace {

using ::testing::EndsWith;
using testing::FakeRun;
using ::testing::HasSubstr;
using ::testing::Not;
using testing::shown_by;

TEST(ProgressHook, LogsOneLinePerInterval) {
  const std::string text = shown_by([](ProgressDisplay& display) {
    const auto hook = make_progress_hook(display, 3);
    FakeRun run;
    for (int i = 0; i < 7; ++i) run.step(*hook);
    hook->after_train(run.view());
  });
  EXPECT_EQ(std::ranges::count(text, '\n'), 3);  // the third one for the remaining step
  EXPECT_THAT(text, HasSubstr("step 7/7"));
  EXPECT_THAT(text, HasSubstr("loss 7.0"));
  EXPECT_THAT(text, HasSubstr("step 3/7"));
  EXPECT_THAT(text, HasSubstr("loss 2.0"));  // mean of the losses 1, 2, 3
  EXPECT_THAT(text, HasSubstr("step 6/7"));
  EXPECT_THAT(text, HasSubstr("128 examples/s"));
  EXPECT_THAT(text, HasSubstr("worker sent 44 B received 47 B/step 0.9x fp32, 0.5x bf16"));
}

TEST(ProgressHook, LogsMeanBytesOfTheInterval) {
  const std::string text = shown_by([](ProgressDisplay& display) {
    const auto hook = make_progress_hook(display, 2);
    FakeRun run;
    run.step(*hook);
    run.report = {};
    run.report.num_workers = 2;
    run.step(*hook);
  });
  EXPECT_THAT(text, HasSubstr("worker sent 22 B received 24 B/step 1.9x fp32, 0.9x bf16"));
}

TEST(ProgressHook, SaysHowManyStepsWereSkipped) {
  const auto shown = [](int steps_before) {
    return shown_by([&](ProgressDisplay& display) {
      const auto hook = make_progress_hook(display, 3);
      FakeRun run;
      run.done = static_cast<std::uint64_t>(steps_before);
      for (int i = 0; i < 5; ++i) {
        run.report.skipped = i == 1 || i == 4;
        run.report.nonfinite = run.report.skipped ? "step: tensor 'a'" : "";
        run.step(*hook);
      }
      hook->after_train(run.view());
    });
  };
  const std::string text = shown(0);
  EXPECT_THAT(text, HasSubstr("step 3/7 42% loss 2.0000 accuracy 0.125 128 examples/s skipped 1 worker sent 44 B"));
  EXPECT_THAT(text, EndsWith("\n2 of 5 steps were skipped: a gradient or the mean was not finite\n"));
  EXPECT_THAT(shown(2), EndsWith("\n2 of 5 steps after step 2 were skipped: a gradient or the mean was not finite\n"));
}

TEST(ProgressHook, HasNoRatioOfStepsThatWereAllSkipped) {
  const std::string text = shown_by([](ProgressDisplay& display) {
    const auto hook = make_progress_hook(display, 2);
    FakeRun run;
    for (int i = 0; i < 2; ++i) run.step(*hook);
    run.report.skipped = true;
    for (int i = 0; i < 2; ++i) run.step(*hook);
  });
  EXPECT_THAT(text.substr(0, text.find('\n')), HasSubstr("x fp32"));
  EXPECT_THAT(text.substr(text.find('\n')), HasSubstr("skipped 2"));
  EXPECT_THAT(text.substr(text.find('\n')), Not(HasSubstr("x fp32")));
}

TEST(ProgressHook, AveragesOverTheStepsOfTheMetricsAfterAResume) {
  Interval begun;
  begun.steps = 2;
  begun.loss = 11;
  begun.skipped_steps = 1;
  const std::string text = shown_by([&](ProgressDisplay& display) {
    const auto hook = make_progress_hook(display, 3);
    hook->restore_state({{kIntervalKey, begun.to_text()}});
    FakeRun run;
    run.done = 2;
    run.step(*hook);
    hook->after_train(run.view());
  });
  EXPECT_THAT(text, HasSubstr("step 3/7 42% loss 4.6667"));  // mean of 11 and 3
  EXPECT_THAT(text, HasSubstr("skipped 1"));
  EXPECT_THAT(text, Not(HasSubstr("were skipped")));  // none since the resume
}

TEST(ProgressHook, SaysOnceWhereStepsWaitForExamples) {
  const auto shown = [](double data_seconds, int num_steps) {
    return shown_by([&](ProgressDisplay& display) {
      const auto hook = make_progress_hook(display, 10);
      FakeRun run;
      run.total = 200;
      run.data_seconds = data_seconds;
      for (int i = 0; i < num_steps; ++i) run.step(*hook);
    });
  };
  EXPECT_THAT(shown(0.05, 200), HasSubstr("wait for examples for 20 % of their time: --num_preprocess_threads"));
  const std::string text = shown(0.05, 200);
  EXPECT_EQ(text.find("wait for examples"), text.rfind("wait for examples"));
  EXPECT_THAT(shown(0.05, 40), Not(HasSubstr("wait for examples")));  // ten seconds are too short
  EXPECT_THAT(shown(0.02, 200), Not(HasSubstr("wait for examples")));
}

TEST(ProgressHook, ReportsNonfiniteGradientsOncePerInterval) {
  const std::string text = shown_by([](ProgressDisplay& display) {
    const auto hook = make_progress_hook(display, 4);
    FakeRun run;
    run.report.nonfinite = "step 0: tensor 'a' of worker 1 holds NaN or infinity";
    for (int i = 0; i < 4; ++i) run.step(*hook);
    run.report.nonfinite = "step 4: tensor 'b' of worker 0 holds NaN or infinity";
    run.report.skipped = true;
    for (int i = 0; i < 2; ++i) run.step(*hook);
  });
  EXPECT_THAT(text, HasSubstr("step 0: tensor 'a' of worker 1 holds NaN or infinity; counted as zero\n"));
  EXPECT_THAT(text, HasSubstr("step 4: tensor 'b' of worker 0 holds NaN or infinity; the step is skipped\n"));
  EXPECT_EQ(std::ranges::count(text, '\n'), 3);
}

}  // namespace
}  // namespace terngrad::progress_hook_test
