#include "trainers/hooks/evaluator_watch.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <chrono>
#include <thread>

#include "tests/trainers/fake_run.h"

namespace terngrad::evaluator_watch_test {
namespace {

using Change = EvaluatorWatch::Change;
using std::chrono::seconds;

const EvaluatorWatch::Clock::time_point kBegin{seconds(1000)};

TEST(EvaluatorWatch, MissesWhoIsSilentForLongerThanTheTimeoutOnce) {
  EvaluatorWatch watch(8, kBegin);
  EXPECT_EQ(watch.look(0, kBegin + seconds(8)), Change::kNone);
  EXPECT_EQ(watch.look(1, kBegin + seconds(8)), Change::kNone);
  EXPECT_EQ(watch.look(1, kBegin + seconds(16)), Change::kNone);
  EXPECT_EQ(watch.look(1, kBegin + seconds(17)), Change::kNone) << "in doubt";
  EXPECT_EQ(watch.look(1, kBegin + seconds(18)), Change::kNone);
  EXPECT_EQ(watch.look(1, kBegin + seconds(19)), Change::kMissing);
  EXPECT_EQ(watch.look(1, kBegin + seconds(100)), Change::kNone) << "said already";
  EXPECT_EQ(watch.look(2, kBegin + seconds(101)), Change::kBack);
  EXPECT_EQ(watch.look(2, kBegin + seconds(102)), Change::kNone);
  EXPECT_EQ(watch.look(2, kBegin + seconds(110)), Change::kNone);
  EXPECT_EQ(watch.look(2, kBegin + seconds(112)), Change::kMissing);
}

TEST(EvaluatorWatch, DoesNotTakeItsOwnAbsenceForTheOthers) {
  EvaluatorWatch watch(8, kBegin);
  EXPECT_EQ(watch.look(1, kBegin + seconds(1)), Change::kNone);
  // The process was suspended for an hour; the first look comes before the heartbeats that arrived meanwhile are read.
  EXPECT_EQ(watch.look(1, kBegin + seconds(3600)), Change::kNone);
  EXPECT_EQ(watch.look(2, kBegin + seconds(3601)), Change::kNone);
  EXPECT_EQ(watch.look(2, kBegin + seconds(3603)), Change::kNone);
}

TEST(EvaluatorWatch, TheHookSaysItAndGoesOn) {
  testing::FakeRun run;
  std::uint64_t num_beats = 0;
  const std::string text = testing::shown_by([&](ProgressDisplay& display) {
    const auto hook = make_evaluator_watch_hook(1e-4, "rank 2 on node3", display, [&] { return num_beats; });
    hook->before_train(run.view());
    for (int i = 0; i < 4; ++i) {
      std::this_thread::sleep_for(std::chrono::milliseconds(1));
      EXPECT_EQ(run.step(*hook), HookVerdict::kContinue);
    }
    ++num_beats;
    run.step(*hook);
  });
  EXPECT_EQ(
      text,
      "warning: step 2: rank 2 on node3, which evaluates, has given no sign of life for 0.0001 seconds: it hangs or "
      "is gone; training continues, checkpoints are not evaluated\n"
      "step 5: rank 2 on node3, which evaluates, is back\n");
}

}  // namespace
}  // namespace terngrad::evaluator_watch_test
