#include "trainers/hooks/histogram_hook.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <map>
#include <string>
#include <vector>

#include "tests/trainers/event_reader.h"
#include "tests/trainers/small_training.h"
#include "tests/trainers/temporary_directory.h"

namespace terngrad::histogram_hook_test {
namespace {

using ::testing::ElementsAre;
using ::testing::Key;
using testing::read_events;
using testing::TemporaryDirectory;

/// The histograms of a run of LeNet, by step and tag.
std::map<std::int64_t, std::map<std::string, tensorboard::HistogramProto>> histograms_of(Trainer& trainer,
                                                                                         std::uint64_t steps) {
  const TemporaryDirectory folder;
  EventFile events{Folder(folder.path())};
  trainer.add_hook(make_histogram_hook(events, steps));
  trainer.run();
  std::map<std::int64_t, std::map<std::string, tensorboard::HistogramProto>> histograms;
  for (const auto& event : read_events(events.path())) {
    for (const auto& value : event.summary().value()) histograms[event.step()][value.tag()] = value.histo();
  }
  return histograms;
}

TEST(HistogramHook, ShowsEveryTensorBeforeAndAfterCompression) {
  const auto trainer = testing::make_small_trainer({.num_workers = 2, .codec = "ternary", .total_steps = 5});
  const Layout& layout = trainer->net().layout();
  std::vector<float> gradient;
  std::vector<float> sent;
  const int segment = layout.num_segments() - 4;  // weights of the last layer that is not the logits'
  trainer->add_hook(at_step(4, [&](const TrainingView&, const StepView& step) {
    const std::span<const float> view = step.gradient(segment);
    gradient.assign(view.begin(), view.end());
    sent.resize(view.size());
    step.decode_sent(segment, sent);
    return HookVerdict::kContinue;
  }));
  auto histograms = histograms_of(*trainer, 2);
  EXPECT_THAT(histograms, ElementsAre(Key(2), Key(4)));
  EXPECT_EQ(histograms[4].size(), 3 * static_cast<std::size_t>(layout.num_segments()));
  const std::string name = layout.segment(segment).name;
  const auto expect_of = [&](const std::string& tag, std::span<const float> values) {
    const Histogram expected = make_histogram(values);
    const auto& found = histograms[4][tag];
    EXPECT_EQ(found.num(), static_cast<double>(values.size())) << tag;
    EXPECT_EQ(found.sum(), expected.sum) << tag;
    EXPECT_EQ(found.sum_squares(), expected.sum_squares) << tag;
    EXPECT_EQ(std::vector<double>(found.bucket_limit().begin(), found.bucket_limit().end()), expected.limits) << tag;
  };
  expect_of("gradient/" + name, gradient);
  expect_of("sent/" + name, sent);
  EXPECT_NE(histograms[4]["gradient/" + name].sum(), histograms[4]["sent/" + name].sum());
  EXPECT_GT(histograms[4]["parameters/" + name].sum_squares(), 0);
}

TEST(HistogramHook, SentGradientsHaveThreeValues) {
  const auto trainer = testing::make_small_trainer({.num_workers = 2, .codec = "ternary", .total_steps = 1});
  const std::string name = trainer->net().layout().segment(0).name;
  auto histograms = histograms_of(*trainer, 1);
  const auto& sent = histograms[1]["sent/" + name];
  EXPECT_EQ(sent.min(), -sent.max());
  EXPECT_EQ(std::ranges::count_if(sent.bucket(), [](double count) { return count > 0; }), 3);
}

TEST(HistogramHook, ZeroStepsWritesNone) {
  const auto trainer = testing::make_small_trainer({.total_steps = 2});
  EXPECT_TRUE(histograms_of(*trainer, 0).empty());
}

TEST(HistogramHook, ASkippedStepHasParametersOnly) {
  const TemporaryDirectory folder;
  EventFile events{Folder(folder.path())};
  const auto hook = make_histogram_hook(events, 1);
  testing::IdentityNet net(8);
  const std::vector<float> values(static_cast<std::size_t>(net.layout().flat_elements()), 0.5f);
  ExchangeReport report;
  report.skipped = true;
  const TrainingView training{.net = net, .parameters = values, .ema = values, .slots = {}, .steps_done = 1};
  EXPECT_EQ(hook->after_step(training, {.report = report, .telemetry = {}}), HookVerdict::kContinue);
  const auto read = read_events(events.path());
  ASSERT_EQ(read.size(), 2u);
  ASSERT_EQ(read[1].summary().value_size(), 2);
  EXPECT_EQ(read[1].summary().value(0).tag(), "parameters/a");
  EXPECT_EQ(read[1].summary().value(0).histo().num(), 6);
  EXPECT_EQ(read[1].summary().value(1).tag(), "parameters/b");
}

}  // namespace
}  // namespace terngrad::histogram_hook_test
