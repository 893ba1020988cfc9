#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cstddef>
#include <cstdint>
#include <filesystem>
#include <memory>
#include <nlohmann/json.hpp>
#include <optional>
#include <string>
#include <vector>

#include "tests/trainers/fake_run.h"
#include "tests/trainers/temporary_directory.h"
#include "trainers/hooks/evaluation_hook.h"

namespace terngrad::evaluation_hook_test {
namespace {

using Json = nlohmann::ordered_json;
using testing::FakeRun;
using ::testing::HasSubstr;
using testing::lines_of;
using testing::RowDataset;
using testing::shown_by;
using testing::TemporaryDirectory;

/// A hook with a test set of one image with label 0.
class EvaluationHookTest : public ::testing::Test {
 protected:
  /// Calls `use` with a hook. @returns the display's output
  template <class Use>
  std::string with_hook(const EvaluationSteps& steps, const Use& use) {
    return shown_by([&](ProgressDisplay& display) {
      MetricsWriter writer(folder_ / "m.jsonl");
      EvaluationHook hook(
          std::make_shared<RowDataset>(std::vector<std::vector<float>>{image_}, std::vector<std::int32_t>{0}, 8),
          writer, display, steps, 1);
      use(hook);
    });
  }
  std::vector<Json> written() const { return lines_of(folder_ / "m.jsonl"); }

  TemporaryDirectory folder_;
  std::vector<float> image_ = std::vector<float>(8);
  FakeRun run_;
};

TEST_F(EvaluationHookTest, EvaluatesTheAverageEveryNStepsAndAtTheEnd) {
  image_[1] = 0.375;
  const std::string text = with_hook({.every = 3}, [&](EvaluationHook& hook) {
    for (int i = 0; i < 7; ++i) EXPECT_EQ(run_.step(hook), HookVerdict::kContinue);
    hook.after_train(run_.view());
    hook.after_train(run_.view());
  });
  EXPECT_EQ(run_.net.last_state, run_.averaged_state);
  const std::vector<Json> lines = written();
  ASSERT_EQ(lines.size(), 3u);
  EXPECT_EQ(lines[0]["step"], 3);
  EXPECT_EQ(lines[1]["step"], 6);
  EXPECT_EQ(lines[2]["step"], 7);
  EXPECT_EQ(lines[0]["kind"], "test");
  EXPECT_EQ(lines[0]["examples"], 1);
  // Class 0 gets the first parameter: the average's 0.25 is below 0.375; the raw weights' 0.5 would be above.
  EXPECT_EQ(lines[0]["weights"], "ema");
  EXPECT_EQ(lines[0]["top1"], 0.0);
  EXPECT_EQ(lines[0]["top5"], 1.0);
  EXPECT_THAT(text, HasSubstr("step 7 test top-1 = 0.0000 top-5 = 1.0000 [1 examples]\n"));
}

TEST_F(EvaluationHookTest, ResumedRunBeginsWithTheLineThatIsMissing) {
  const auto lines_at = [&](std::uint64_t done, std::optional<std::uint64_t> evaluated) {
    const std::size_t before = std::filesystem::exists(folder_ / "m.jsonl") ? written().size() : 0;
    run_.done = done;
    with_hook({.every = 3}, [&](EvaluationHook& hook) {
      if (evaluated) hook.set_evaluated(*evaluated);
      hook.before_train(run_.view());
    });
    return written().size() - before;
  };
  EXPECT_EQ(lines_at(3, std::nullopt), 1u);
  EXPECT_EQ(lines_at(6, 3), 1u);
  EXPECT_EQ(lines_at(6, 6), 0u);
  EXPECT_EQ(lines_at(4, 3), 0u);
  EXPECT_EQ(lines_at(0, std::nullopt), 0u);
}

TEST_F(EvaluationHookTest, DoesNotEvaluateARunThatIsStoppedEarly) {
  run_.done = run_.total - 1;
  with_hook({}, [&](EvaluationHook& hook) { hook.after_train(run_.view()); });
  EXPECT_TRUE(written().empty());
}

TEST_F(EvaluationHookTest, WritesNoResultTwice) {
  run_.done = run_.total;
  with_hook({}, [&](EvaluationHook& resumed) {
    resumed.set_evaluated(run_.total);
    resumed.after_train(run_.view());
  });
  EXPECT_TRUE(written().empty());
}

TEST_F(EvaluationHookTest, EvaluatesAtListedStepsTheStartAmongThem) {
  with_hook({.every = 4, .listed = {0, 1, 4, 6}}, [&](EvaluationHook& hook) {
    hook.before_train(run_.view());
    for (int i = 0; i < 7; ++i) run_.step(hook);
    hook.after_train(run_.view());
  });
  std::vector<int> steps;
  for (const Json& line : written()) steps.push_back(line["step"]);
  EXPECT_THAT(steps, ::testing::ElementsAre(0, 1, 4, 6, 7));
}

TEST_F(EvaluationHookTest, ARunOfNoStepsIsEvaluatedOnce) {
  run_.total = 0;
  for (const EvaluationSteps& steps : {EvaluationSteps{}, EvaluationSteps{.listed = {0}}}) {
    const std::size_t before = std::filesystem::exists(folder_ / "m.jsonl") ? written().size() : 0;
    with_hook(steps, [&](EvaluationHook& hook) {
      hook.before_train(run_.view());
      hook.after_train(run_.view());
    });
    EXPECT_EQ(written().size() - before, 1u);
  }
}

TEST_F(EvaluationHookTest, AResumedRunDoesNotEvaluateTheStartAgain) {
  with_hook({.listed = {0, 3}}, [&](EvaluationHook& hook) {
    hook.set_evaluated(0);
    hook.before_train(run_.view());
  });
  EXPECT_TRUE(written().empty());
}

TEST(EvaluationSteps, KnowTheNextOne) {
  const EvaluationSteps steps{.every = 10, .listed = {0, 3, 10, 25}};
  for (const std::uint64_t step : {0u, 3u, 10u, 20u, 25u, 30u}) EXPECT_TRUE(steps.has(step)) << step;
  for (const std::uint64_t step : {1u, 11u, 26u}) EXPECT_FALSE(steps.has(step)) << step;
  EXPECT_EQ(steps.next(0), 3u);
  EXPECT_EQ(steps.next(3), 10u);
  EXPECT_EQ(steps.next(10), 20u);
  EXPECT_EQ(steps.next(20), 25u);
  EXPECT_EQ(steps.next(25), 30u);
  EXPECT_FALSE(EvaluationSteps{.every = 10}.has(0));
  EXPECT_EQ(EvaluationSteps{.listed = {3}}.next(3), kNoSyncStep);
}

}  // namespace
}  // namespace terngrad::evaluation_hook_test
