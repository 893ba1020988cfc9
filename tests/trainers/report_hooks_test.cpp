#include "trainers/report_hooks.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <limits>
#include <memory>
#include <nlohmann/json.hpp>
#include <optional>
#include <sstream>
#include <string>
#include <vector>

#include "kernels/errors.h"
#include "tests/trainers/small_training.h"
#include "tests/trainers/temporary_directory.h"
#include "trainers/atomic_file.h"

namespace terngrad {
namespace {

using ::testing::AllOf;
using ::testing::ElementsAre;
using ::testing::HasSubstr;
using Json = nlohmann::ordered_json;
using testing::message_of;
using testing::TemporaryDirectory;

std::vector<Json> lines_of(const std::filesystem::path& path) {
  std::vector<Json> lines;
  std::istringstream text(read_file_text(path));
  for (std::string line; std::getline(text, line);) lines.push_back(Json::parse(line));
  return lines;
}

Json without_times(const Json& line) {
  Json kept = Json::object();
  for (const auto& [key, value] : line.items()) {
    if (!key.ends_with("_seconds") && !key.ends_with("_per_second")) kept[key] = value;
  }
  return kept;
}

/// A run of two workers that needs no training: steps with the losses 1, 2, 3, ...
class FakeRun {
 public:
  FakeRun() {
    report.scalers = {.sent = 16, .received = 18};
    report.gradient = {.sent = 60, .received = 62};
    report.mean = {.sent = 12, .received = 14};
  }
  TrainingView view() {
    return {.net = net,
            .parameters = values,
            .ema = averaged,
            .slots = {{"momentum", slot}},
            .optimizer_state = {{"updates", "3"}},
            .steps_done = done,
            .total_steps = total,
            .num_workers = 2,
            .num_local_workers = 2,
            .batch_size = 32,
            .ema_state = averaged_state};
  }
  HookVerdict step(Hook& hook) {
    ++done;
    const StepView view_of_step{
        .step = done - 1,
        .loss = static_cast<double>(done),
        .accuracy = 0.125,
        .learning_rate = 0.5 / static_cast<double>(done),
        .step_seconds = 0.25,
        .transform_counts = transform_counts,
        .report = report,
        .telemetry =
            [](int segment) {
              TensorTelemetry telemetry;
              telemetry.scaler = 10 + segment;
              telemetry.snr_db = std::numeric_limits<double>::infinity();
              return telemetry;
            },
    };
    return hook.after_step(view(), view_of_step);
  }

  testing::IdentityNet net{8};
  ExchangeReport report;
  TransformCounts transform_counts;
  std::vector<float> values = std::vector<float>(static_cast<std::size_t>(net.layout().flat_elements()), 0.5f);
  std::vector<float> averaged = std::vector<float>(values.size(), 0.25f);
  std::vector<float> slot = std::vector<float>(values.size(), -1.0f);
  std::vector<float> averaged_state = {0.125f};
  std::uint64_t done = 0;
  std::uint64_t total = 7;
};

TEST(MetricsHook, WritesMeansOverTheInterval) {
  const TemporaryDirectory folder;
  MetricsWriter writer(folder / "m.jsonl");
  Interval interval;
  const auto hook = make_metrics_hook(writer, 3, 0, interval);
  FakeRun run;
  for (int i = 0; i < 7; ++i) EXPECT_EQ(run.step(*hook), HookVerdict::kContinue);
  const std::vector<Json> lines = lines_of(folder / "m.jsonl");
  ASSERT_EQ(lines.size(), 3u);  // steps 3 and 6, and the last one
  EXPECT_EQ(lines[0]["step"], 3);
  EXPECT_EQ(lines[0]["kind"], "train");
  EXPECT_EQ(lines[0]["loss"], 2.0);
  EXPECT_EQ(lines[1]["loss"], 5.0);
  EXPECT_EQ(lines[2]["step"], 7);
  EXPECT_EQ(lines[2]["loss"], 7.0);
  EXPECT_EQ(lines[0]["accuracy"], 0.125);
  EXPECT_EQ(lines[1]["learning_rate"], 0.5 / 6);
  EXPECT_EQ(lines[0]["examples_per_second"], 32 / 0.25);
}

TEST(MetricsHook, FieldsAreTheDocumentedOnes) {
  const TemporaryDirectory folder;
  MetricsWriter writer(folder / "m.jsonl");
  Interval interval;
  const auto hook = make_metrics_hook(writer, 1, 0, interval);
  FakeRun run;
  run.step(*hook);
  const Json line = lines_of(folder / "m.jsonl").at(0);
  std::vector<std::string> keys;
  for (const auto& item : line.items()) keys.push_back(item.key());
  EXPECT_THAT(keys,
              ElementsAre("step", "kind", "loss", "accuracy", "learning_rate", "skipped_steps", "nonfinite_steps",
                          "zeroed_elements", "clipped_gradients", "sent_bytes_per_worker", "received_bytes_per_worker",
                          "compression_ratio", "examples_per_second", "data_seconds", "compute_seconds",
                          "measure_seconds", "encode_seconds", "wire_seconds", "decode_seconds", "update_seconds"));
  // Bytes are sums over two workers.
  EXPECT_EQ(line["sent_bytes_per_worker"], (Json{{"scalers", 8.0}, {"gradient", 30.0}, {"mean", 6.0}}));
  EXPECT_EQ(line["received_bytes_per_worker"], (Json{{"scalers", 9.0}, {"gradient", 31.0}, {"mean", 7.0}}));
  // Two workers of 11 float32 each, 88 bytes sent.
  EXPECT_EQ(line["compression_ratio"], 2 * 11 * 4 / 88.0);
}

TEST(MetricsHook, BytesAreMeansOverTheInterval) {
  const TemporaryDirectory folder;
  MetricsWriter writer(folder / "m.jsonl");
  Interval interval;
  const auto hook = make_metrics_hook(writer, 2, 0, interval);
  FakeRun run;
  run.step(*hook);
  // Resumed in between; the last step sent nothing.
  interval = parse_interval(interval.to_text());
  run.report = {};
  run.step(*hook);
  const Json line = lines_of(folder / "m.jsonl").at(0);
  EXPECT_EQ(line["sent_bytes_per_worker"], (Json{{"scalers", 4.0}, {"gradient", 15.0}, {"mean", 3.0}}));
  EXPECT_EQ(line["received_bytes_per_worker"], (Json{{"scalers", 4.5}, {"gradient", 15.5}, {"mean", 3.5}}));
  EXPECT_EQ(line["compression_ratio"], 2 * 2 * 11 * 4 / 88.0);
}

TEST(MetricsHook, WithoutMessagesThereIsNoRatio) {
  const TemporaryDirectory folder;
  MetricsWriter writer(folder / "m.jsonl");
  Interval interval;
  const auto hook = make_metrics_hook(writer, 1, 0, interval);
  FakeRun run;
  run.report = {};
  run.step(*hook);
  EXPECT_FALSE(lines_of(folder / "m.jsonl").at(0).contains("compression_ratio"));
}

TEST(MetricsHook, CountsSkippedAndNonfiniteSteps) {
  const TemporaryDirectory folder;
  MetricsWriter writer(folder / "m.jsonl");
  Interval interval;
  const auto hook = make_metrics_hook(writer, 3, 1, interval);
  FakeRun run;
  run.step(*hook);
  run.report.nonfinite = "step 1: tensor 'a' of worker 1 holds NaN or infinity";
  run.step(*hook);
  run.report.skipped = true;
  run.step(*hook);
  run.report.skipped = false;
  run.report.nonfinite = "";
  for (int i = 0; i < 3; ++i) run.step(*hook);
  std::vector<Json> train;
  std::vector<std::uint64_t> tensors;
  for (const Json& line : lines_of(folder / "m.jsonl")) {
    if (line["kind"] == "train") train.push_back(line);
    if (line["kind"] == "tensors") tensors.push_back(line["step"]);
  }
  ASSERT_EQ(train.size(), 2u);
  EXPECT_EQ(train[0]["skipped_steps"], 1);
  EXPECT_EQ(train[0]["nonfinite_steps"], 2);
  EXPECT_EQ(train[1]["skipped_steps"], 0);
  EXPECT_EQ(train[1]["nonfinite_steps"], 0);
  // A skipped step sent nothing that could be compared.
  EXPECT_THAT(tensors, ElementsAre(1, 2, 4, 5, 6));
}

TEST(MetricsHook, SumsWhatTransformsChanged) {
  const TemporaryDirectory folder;
  MetricsWriter writer(folder / "m.jsonl");
  Interval interval;
  const auto hook = make_metrics_hook(writer, 3, 0, interval);
  FakeRun run;
  run.transform_counts = {.zeroed_elements = 5'000'000'000, .clipped_gradients = 2};
  for (int i = 0; i < 3; ++i) run.step(*hook);
  run.transform_counts = {};
  for (int i = 0; i < 3; ++i) run.step(*hook);
  const std::vector<Json> lines = lines_of(folder / "m.jsonl");
  ASSERT_EQ(lines.size(), 2u);
  EXPECT_EQ(lines[0]["zeroed_elements"], 15'000'000'000);
  EXPECT_EQ(lines[0]["clipped_gradients"], 6);
  EXPECT_EQ(lines[1]["zeroed_elements"], 0);
  EXPECT_EQ(lines[1]["clipped_gradients"], 0);
}

TEST(MetricsHook, TelemetryNamesEveryTensor) {
  const TemporaryDirectory folder;
  MetricsWriter writer(folder / "m.jsonl");
  Interval interval;
  const auto hook = make_metrics_hook(writer, 100, 2, interval);
  FakeRun run;
  for (int i = 0; i < 5; ++i) run.step(*hook);
  const std::vector<Json> lines = lines_of(folder / "m.jsonl");
  ASSERT_EQ(lines.size(), 2u);
  EXPECT_EQ(lines[0]["step"], 2);
  EXPECT_EQ(lines[1]["step"], 4);
  EXPECT_EQ(lines[0]["kind"], "tensors");
  EXPECT_EQ(lines[0]["tensors"]["a"]["scaler"], 10.0);
  EXPECT_EQ(lines[0]["tensors"]["b"]["scaler"], 11.0);
  EXPECT_TRUE(lines[0]["tensors"]["b"]["snr_db"].is_null());  // infinite
  for (const char* key : {"scaler", "zero_fraction", "clip_fraction", "kept_norm", "snr_db", "norm", "max_abs"}) {
    EXPECT_TRUE(lines[0]["tensors"]["a"].contains(key)) << key;
  }
}

TEST(MetricsHook, EqualRunsGiveEqualLinesLessTimes) {
  const TemporaryDirectory folder;
  std::vector<std::vector<Json>> runs;
  for (const char* name : {"1.jsonl", "2.jsonl"}) {
    MetricsWriter writer(folder / name);
    Interval interval;
    const auto trainer = testing::make_small_trainer({.num_workers = 2, .codec = "ternary"});
    trainer->add_hook(make_metrics_hook(writer, 2, 3, interval));
    trainer->run();
    std::vector<Json> lines;
    for (const Json& line : lines_of(folder / name)) lines.push_back(without_times(line));
    runs.push_back(std::move(lines));
  }
  ASSERT_EQ(runs[0].size(), 5u);
  EXPECT_EQ(runs[0], runs[1]);
  EXPECT_GT(runs[0][0]["compression_ratio"], 5.0);
}

TEST(Interval, TextKeepsAllButTimesExactly) {
  Interval interval;
  interval.steps = 3;
  interval.loss = 0.1 + 0.2;
  interval.accuracy = -0.0;
  interval.skipped_steps = 1;
  interval.nonfinite_steps = 2;
  interval.transform_counts = {.zeroed_elements = 5'000'000'000, .clipped_gradients = 7};
  interval.seconds = 9;
  const Interval read = parse_interval(interval.to_text());
  EXPECT_EQ(read.steps, 3u);
  EXPECT_EQ(testing::bits_of(read.loss), testing::bits_of(interval.loss));
  EXPECT_EQ(testing::bits_of(read.accuracy), testing::bits_of(interval.accuracy));
  EXPECT_EQ(read.skipped_steps, 1u);
  EXPECT_EQ(read.nonfinite_steps, 2u);
  EXPECT_EQ(read.transform_counts.zeroed_elements, 5'000'000'000);
  EXPECT_EQ(read.transform_counts.clipped_gradients, 7);
  EXPECT_EQ(read.seconds, 0);
  interval.loss = std::numeric_limits<double>::quiet_NaN();
  EXPECT_TRUE(std::isnan(parse_interval(interval.to_text()).loss));
  for (const std::string& text : {std::string(), std::string("1 2 3"), interval.to_text() + " 1", std::string("x")}) {
    EXPECT_THROW(parse_interval(text), DataError) << text;
  }
}

/// What a display prints while `show` uses it.
template <class Show>
std::string shown_by(const Show& show) {
  std::FILE* const file = std::tmpfile();
  {
    ProgressDisplay display(file, ProgressDisplay::Mode::kLog);
    show(display);
  }
  std::string text(static_cast<std::size_t>(std::ftell(file)), '\0');
  std::rewind(file);
  EXPECT_EQ(std::fread(text.data(), 1, text.size(), file), text.size());
  std::fclose(file);
  return text;
}

TEST(ProgressHook, LogsOneLinePerInterval) {
  const std::string text = shown_by([](ProgressDisplay& display) {
    const auto hook = make_progress_hook(display, 3);
    FakeRun run;
    for (int i = 0; i < 7; ++i) run.step(*hook);
    hook->after_train(run.view());
  });
  EXPECT_EQ(std::ranges::count(text, '\n'), 2);
  EXPECT_THAT(text, HasSubstr("step 3/7"));
  EXPECT_THAT(text, HasSubstr("loss 2.0"));  // the mean of the losses 1, 2, 3
  EXPECT_THAT(text, HasSubstr("step 6/7"));
  EXPECT_THAT(text, HasSubstr("128 examples/s"));
  EXPECT_THAT(text, HasSubstr("sent 88 B/step"));
}

TEST(ProgressHook, LogsMeanBytesOfTheInterval) {
  const std::string text = shown_by([](ProgressDisplay& display) {
    const auto hook = make_progress_hook(display, 2);
    FakeRun run;
    run.step(*hook);
    run.report = {};
    run.step(*hook);
  });
  EXPECT_THAT(text, HasSubstr("sent 44 B/step"));
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

TEST(EvaluationHook, EvaluatesTheAverageEveryNStepsAndAtTheEnd) {
  const TemporaryDirectory folder;
  const auto dataset = std::make_shared<testing::RowDataset>(
      std::vector<std::vector<float>>{{0, 0.375, 0, 0, 0, 0, 0, 0}}, std::vector<std::int32_t>{0}, 8);
  const std::string text = shown_by([&](ProgressDisplay& display) {
    MetricsWriter writer(folder / "m.jsonl");
    EvaluationHook hook(dataset, writer, display, 3, 1);
    FakeRun run;
    for (int i = 0; i < 7; ++i) EXPECT_EQ(run.step(hook), HookVerdict::kContinue);
    hook.after_train(run.view());
    hook.after_train(run.view());
    EXPECT_EQ(run.net.last_state, run.averaged_state);
  });
  const std::vector<Json> lines = lines_of(folder / "m.jsonl");
  ASSERT_EQ(lines.size(), 3u);
  EXPECT_EQ(lines[0]["step"], 3);
  EXPECT_EQ(lines[1]["step"], 6);
  EXPECT_EQ(lines[2]["step"], 7);
  EXPECT_EQ(lines[0]["kind"], "test");
  EXPECT_EQ(lines[0]["examples"], 1);
  // Class 0 gets the first parameter: 0.25 of the average loses against 0.375, 0.5 of the raw weights would win.
  EXPECT_EQ(lines[0]["weights"], "ema");
  EXPECT_EQ(lines[0]["top1"], 0.0);
  EXPECT_EQ(lines[0]["top5"], 1.0);
  EXPECT_THAT(text, HasSubstr("step 7 test top-1 = 0.0000 top-5 = 1.0000 [1 examples]\n"));
}

TEST(EvaluationHook, ResumedRunBeginsWithTheLineThatIsMissing) {
  const auto dataset = std::make_shared<testing::RowDataset>(std::vector<std::vector<float>>{std::vector<float>(8)},
                                                             std::vector<std::int32_t>{0}, 8);
  const auto lines_at = [&](std::uint64_t done, std::optional<std::uint64_t> evaluated) {
    const TemporaryDirectory folder;
    shown_by([&](ProgressDisplay& display) {
      MetricsWriter writer(folder / "m.jsonl");
      FakeRun run;
      run.done = done;
      EvaluationHook hook(dataset, writer, display, 3, 1);
      if (evaluated) hook.set_evaluated(*evaluated);
      hook.before_train(run.view());
    });
    return lines_of(folder / "m.jsonl").size();
  };
  EXPECT_EQ(lines_at(3, std::nullopt), 1u);
  EXPECT_EQ(lines_at(6, 3), 1u);
  EXPECT_EQ(lines_at(6, 6), 0u);
  EXPECT_EQ(lines_at(4, 3), 0u);
  EXPECT_EQ(lines_at(0, std::nullopt), 0u);
}

TEST(EvaluationHook, DoesNotEvaluateARunThatIsStoppedEarly) {
  const TemporaryDirectory folder;
  const auto dataset = std::make_shared<testing::RowDataset>(std::vector<std::vector<float>>{std::vector<float>(8)},
                                                             std::vector<std::int32_t>{0}, 8);
  shown_by([&](ProgressDisplay& display) {
    MetricsWriter writer(folder / "m.jsonl");
    FakeRun run;
    run.done = run.total - 1;
    EvaluationHook(dataset, writer, display, 0, 1).after_train(run.view());
  });
  EXPECT_EQ(read_file_text(folder / "m.jsonl"), "");
}

TEST(EvaluationHook, WritesNoResultTwice) {
  const TemporaryDirectory folder;
  const auto dataset = std::make_shared<testing::RowDataset>(std::vector<std::vector<float>>{std::vector<float>(8)},
                                                             std::vector<std::int32_t>{0}, 8);
  shown_by([&](ProgressDisplay& display) {
    MetricsWriter writer(folder / "m.jsonl");
    FakeRun run;
    run.done = run.total;
    EvaluationHook resumed(dataset, writer, display, 0, 1);
    resumed.set_evaluated(run.total);
    resumed.after_train(run.view());
  });
  EXPECT_EQ(read_file_text(folder / "m.jsonl"), "");
}

TEST(CheckpointHook, SavesEveryNStepsAndAtTheEnd) {
  const TemporaryDirectory folder;
  MetricsWriter writer(folder / "m.jsonl");
  const Interval interval;
  CheckpointState state;
  state.net = "identity";
  state.more["codec"] = "fp32";
  ProgressDisplay display(stderr, ProgressDisplay::Mode::kLog);
  CheckpointHook hook({.directory = folder.path(), .save_steps = 2, .keep_last = 2}, state, writer, interval, display);
  FakeRun run;
  for (int i = 0; i < 7; ++i) EXPECT_EQ(run.step(hook), HookVerdict::kContinue);
  hook.after_train(run.view());
  std::vector<std::uint64_t> steps;
  for (const CheckpointFile& file : list_checkpoints(folder.path())) steps.push_back(file.step);
  EXPECT_THAT(steps, ElementsAre(6, 7));  // the newest two
  const Checkpoint checkpoint = load_checkpoint(checkpoint_path(folder.path(), 7));
  EXPECT_EQ(checkpoint.state().step, 7u);
  EXPECT_EQ(checkpoint.state().net, "identity");
  // What the run said, and what its optimizer says now.
  state.more["updates"] = "3";
  EXPECT_EQ(checkpoint.state().more, state.more);
  std::vector<float> values(run.values.size());
  for (const auto& [group, value] : {std::pair{"parameters", 0.5f}, {"ema", 0.25f}, {"slots/momentum", -1.0f}}) {
    checkpoint.read_group(group, run.net.layout(), values);
    EXPECT_EQ(values[0], value) << group;
  }
}

TEST(CheckpointHook, KeepsTheIntervalOfASaveBetweenTwoLines) {
  const TemporaryDirectory folder;
  MetricsWriter writer(folder / "m.jsonl");
  Interval interval;
  const auto metrics = make_metrics_hook(writer, 3, 0, interval);
  ProgressDisplay display(stderr, ProgressDisplay::Mode::kLog);
  CheckpointHook hook({.directory = folder.path()}, {}, writer, interval, display);
  FakeRun run;
  for (int i = 0; i < 3; ++i) {
    run.step(*metrics);
    --run.done;
    run.step(hook);
  }
  const auto more_at = [&](std::uint64_t step) {
    return load_checkpoint(checkpoint_path(folder.path(), step)).state().more;
  };
  EXPECT_EQ(parse_interval(more_at(2).at(kIntervalKey)).steps, 2u);
  EXPECT_EQ(parse_interval(more_at(2).at(kIntervalKey)).loss, 3.0);
  EXPECT_FALSE(more_at(3).contains(kIntervalKey));
}

TEST(CheckpointHook, SavesTheBeginningOnRequest) {
  const TemporaryDirectory folder;
  MetricsWriter writer(folder / "m.jsonl");
  const Interval interval;
  ProgressDisplay display(stderr, ProgressDisplay::Mode::kLog);
  FakeRun run;
  const CheckpointHookOptions options{.directory = folder.path(), .save_steps = 100, .save_at_start = true};
  CheckpointHook(options, {}, writer, interval, display).before_train(run.view());
  EXPECT_TRUE(std::filesystem::exists(checkpoint_path(folder.path(), 0)));
  run.done = 3;  // a resumed run has its checkpoint
  CheckpointHook(options, {}, writer, interval, display).before_train(run.view());
  EXPECT_FALSE(std::filesystem::exists(checkpoint_path(folder.path(), 3)));
}

TEST(CheckpointHook, FolderThatIsGoneIsAnError) {
  const TemporaryDirectory folder;
  MetricsWriter writer(folder / "m.jsonl");
  const Interval interval;
  ProgressDisplay display(stderr, ProgressDisplay::Mode::kLog);
  CheckpointHook hook({.directory = folder / "gone"}, {}, writer, interval, display);
  FakeRun run;
  EXPECT_THAT(message_of<DataError>([&] { run.step(hook); }), HasSubstr("gone"));
}

TEST(CheckpointHook, GoesOnAfterAnErrorOnRequestButNotAfterTheLast) {
  const TemporaryDirectory folder;
  const std::string text = shown_by([&](ProgressDisplay& display) {
    MetricsWriter writer(folder / "m.jsonl");
    const Interval interval;
    CheckpointHook hook({.directory = folder / "gone", .save_steps = 3, .on_error = OnSaveError::kContinue}, {}, writer,
                        interval, display);
    FakeRun run;
    for (int i = 0; i < 7; ++i) EXPECT_EQ(run.step(hook), HookVerdict::kContinue);
    EXPECT_THROW(hook.after_train(run.view()), DataError);
  });
  EXPECT_THAT(text, AllOf(HasSubstr("step 3: "), HasSubstr("step 6: "), HasSubstr("gone"),
                          HasSubstr("training goes on, no checkpoint is saved yet\n")));
}

}  // namespace
}  // namespace terngrad
