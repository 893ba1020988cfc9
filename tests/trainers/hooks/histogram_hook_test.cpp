#include "trainers/hooks/histogram_hook.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <map>
#include <nlohmann/json.hpp>
#include <string>
#include <vector>

#include "tests/trainers/event_reader.h"
#include "tests/trainers/fake_run.h"
#include "tests/trainers/small_training.h"
#include "tests/trainers/temporary_directory.h"
#include "trainers/io/histogram_json.h"

namespace terngrad::histogram_hook_test {
namespace {

using ::testing::ElementsAre;
using ::testing::Key;
using testing::lines_of;
using testing::read_events;
using testing::small_lenet;
using testing::TemporaryDirectory;
using ::testing::UnorderedElementsAre;
using Json = nlohmann::ordered_json;

/// Output of a run: histograms of the event file by step and tag, and the lines.
struct Written {
  std::map<std::int64_t, std::map<std::string, tensorboard::HistogramProto>> events;
  std::map<std::int64_t, std::map<std::string, float>> scalars;
  std::vector<Json> lines;

  /// Kinds of histograms of a tensor, in order of the lines.
  std::vector<std::string> kinds_of(const std::string& tensor) const {
    std::vector<std::string> kinds;
    for (const Json& line : lines) {
      if (line["tensor"] == tensor) kinds.push_back(line["kind"]);
    }
    return kinds;
  }
};

Written run_with_histograms(Trainer& trainer, std::uint64_t steps, std::shared_ptr<const Dataset> dataset = nullptr) {
  const TemporaryDirectory folder;
  EventFile events{Folder(folder.path())};
  MetricsWriter lines(folder / "histograms.jsonl");
  trainer.add_hook(make_histogram_hook(lines, &events, steps, std::move(dataset)));
  trainer.run();
  Written written{.events = {}, .scalars = {}, .lines = lines_of(folder / "histograms.jsonl")};
  for (const auto& event : read_events(events.path())) {
    for (const auto& value : event.summary().value()) {
      if (value.has_histo()) written.events[event.step()][value.tag()] = value.histo();
      if (value.has_simple_value()) written.scalars[event.step()][value.tag()] = value.simple_value();
    }
  }
  return written;
}

TEST(HistogramHook, ShowsEveryTensorBeforeAndAfterCompression) {
  const auto trainer = testing::make_small_trainer({.num_workers = 2, .codec = "ternary", .total_steps = 5});
  const Layout& layout = trainer->net().layout();
  std::map<std::string, std::vector<float>> values;
  const int segment = layout.num_segments() - 4;  // weights of the last layer before the logits
  trainer->add_hook(at_step(4, [&](const TrainingView&, const StepView& step) {
    const std::span<const float> gradient = step.gradient(segment);
    values["gradient"].assign(gradient.begin(), gradient.end());
    values["sent"].resize(gradient.size());
    const float scaler = step.decode_sent(segment, values["sent"]);
    for (const float g : gradient) values["clipped"].push_back(std::clamp(g, -scaler, scaler));
    const std::span<const float> mean = step.mean(segment);
    values["mean"].assign(mean.begin(), mean.end());
    return HookVerdict::kContinue;
  }));
  Written written = run_with_histograms(*trainer, 2);
  const auto num_tensors = static_cast<std::size_t>(layout.num_segments());
  EXPECT_THAT(written.events, ElementsAre(Key(2), Key(4)));
  EXPECT_EQ(written.events[4].size(), 5 * num_tensors);
  EXPECT_EQ(written.lines.size(), 2 * 5 * num_tensors);
  const std::string name = layout.segment(segment).name;
  for (const auto& [kind, of_kind] : values) {
    const std::string tag = kind + "/" + name;
    const Histogram expected = make_histogram(of_kind);
    const auto& found = written.events[4][tag];
    EXPECT_EQ(found.num(), static_cast<double>(of_kind.size())) << tag;
    EXPECT_EQ(found.sum(), expected.sum) << tag;
    EXPECT_EQ(found.sum_squares(), expected.sum_squares) << tag;
    EXPECT_EQ(std::vector<double>(found.bucket_limit().begin(), found.bucket_limit().end()), expected.limits) << tag;
    Json line = {{"step", 4}, {"kind", kind}, {"tensor", name}};
    line.update(histogram_json(expected));
    EXPECT_EQ(std::ranges::count(written.lines, line), 1) << tag;
  }
  // All are different: clipping shortens, encoding lengthens, and the mean of two is shorter than one.
  auto& last = written.events[4];
  EXPECT_LT(last["clipped/" + name].sum_squares(), last["gradient/" + name].sum_squares());
  EXPECT_LT(last["clipped/" + name].max(), last["gradient/" + name].max());
  EXPECT_EQ(std::max(last["clipped/" + name].max(), -last["clipped/" + name].min()), last["sent/" + name].max());
  EXPECT_GT(last["sent/" + name].sum_squares(), last["mean/" + name].sum_squares());
  EXPECT_GT(last["parameters/" + name].sum_squares(), 0);
}

TEST(HistogramHook, SentGradientsHaveThreeValuesAndTheirMeanFive) {
  const auto trainer = testing::make_small_trainer({.num_workers = 2, .codec = "ternary", .total_steps = 1});
  const std::string name = trainer->net().layout().segment(0).name;
  Written written = run_with_histograms(*trainer, 1);
  const auto num_used = [&](const std::string& kind) {
    return std::ranges::count_if(written.events[1][kind + "/" + name].bucket(), [](double count) { return count > 0; });
  };
  EXPECT_EQ(written.events[1]["sent/" + name].min(), -written.events[1]["sent/" + name].max());
  EXPECT_EQ(num_used("sent"), 3);
  EXPECT_LE(num_used("mean"), 5);
  EXPECT_GT(num_used("gradient"), 5);
}

TEST(HistogramHook, WhatIsSentAsNumbersIsNotClipped) {
  const auto trainer = testing::make_small_trainer({.simple = true, .total_steps = 1});
  const std::string name = trainer->net().layout().segment(0).name;
  Written written = run_with_histograms(*trainer, 1);
  EXPECT_THAT(written.kinds_of(name), ElementsAre("parameters", "gradient", "clipped", "sent", "mean"));
  for (const char* kind : {"clipped", "sent", "mean"}) {
    EXPECT_EQ(written.events[1][std::string(kind) + "/" + name].SerializeAsString(),
              written.events[1]["gradient/" + name].SerializeAsString())
        << kind;
  }
}

TEST(HistogramHook, WithParametersFromServersThereIsNoMean) {
  const auto trainer = testing::make_small_trainer({.num_workers = 2,
                                                    .codec = "ternary",
                                                    .total_steps = 1,
                                                    .owners = ShardOwners::kServers,
                                                    .pulls_parameters = true});
  const std::string name = trainer->net().layout().segment(0).name;
  EXPECT_THAT(run_with_histograms(*trainer, 1).kinds_of(name),
              ElementsAre("parameters", "gradient", "clipped", "sent"));
}

TEST(HistogramHook, ShowsWhatTheLayersMakeOfTheFirstImages) {
  const std::shared_ptr<const Dataset> digits = testing::small_digits(40, testing::kSmallImage);
  const auto trainer = testing::make_small_trainer({.total_steps = 2});
  Written written = run_with_histograms(*trainer, 2, digits);
  std::map<std::string, std::vector<float>> outputs;
  std::vector<float> images(kActivationExamples * static_cast<std::size_t>(digits->image_elements()));
  for (std::size_t i = 0; i < kActivationExamples; ++i) {
    digits->read(static_cast<std::int64_t>(i), {}, std::span(images).subspan(i * 256, 256));
  }
  trainer->net().visit_outputs(
      trainer->parameters(), {}, images, kActivationExamples,
      [&](const std::string& layer, auto output) { outputs[layer].assign(output.begin(), output.end()); });
  EXPECT_EQ(outputs.size(), small_lenet().layers.size());
  for (const auto& [layer, output] : outputs) {
    const double zeros = static_cast<double>(std::ranges::count(output, 0.0f)) / static_cast<double>(output.size());
    EXPECT_EQ(written.scalars[2]["sparsity/" + layer], static_cast<float>(zeros));
    EXPECT_EQ(written.events[2]["activation/" + layer].sum(), make_histogram(output).sum);
    Json line = {{"step", 2}, {"kind", "activation"}, {"tensor", layer}, {"zero_fraction", zeros}};
    line.update(histogram_json(make_histogram(output)));
    EXPECT_EQ(std::ranges::count(written.lines, line), 1) << layer;
  }
  EXPECT_GT(written.scalars[2]["sparsity/conv2"], 0);
}

TEST(HistogramHook, NeedsNoEventFile) {
  const TemporaryDirectory folder;
  MetricsWriter lines(folder / "histograms.jsonl");
  const auto trainer = testing::make_small_trainer({.total_steps = 3});
  trainer->add_hook(make_histogram_hook(lines, nullptr, 2, nullptr));
  trainer->run();
  EXPECT_EQ(lines_of(folder / "histograms.jsonl").size(),
            5 * static_cast<std::size_t>(trainer->net().layout().num_segments()));
}

TEST(HistogramHook, ZeroStepsWritesNone) {
  const auto trainer = testing::make_small_trainer({.total_steps = 2});
  const Written written = run_with_histograms(*trainer, 0);
  EXPECT_TRUE(written.events.empty());
  EXPECT_TRUE(written.lines.empty());
}

TEST(HistogramHook, ASkippedStepHasParametersOnly) {
  const TemporaryDirectory folder;
  EventFile events{Folder(folder.path())};
  MetricsWriter lines(folder / "histograms.jsonl");
  const auto hook = make_histogram_hook(lines, &events, 1, nullptr);
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
  EXPECT_EQ(lines_of(folder / "histograms.jsonl").size(), 2u);
}

}  // namespace
}  // namespace terngrad::histogram_hook_test
