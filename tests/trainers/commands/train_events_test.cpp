// Event files of terngrad_train, compared with its metrics.
#include "trainers/commands/train_command.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cstdint>
#include <filesystem>
#include <nlohmann/json.hpp>
#include <set>
#include <sstream>
#include <string>
#include <vector>

#include "tests/trainers/event_reader.h"
#include "tests/trainers/train_runs.h"
#include "trainers/checkpoint/checkpoint.h"
#include "trainers/hooks/histogram_hook.h"
#include "trainers/io/atomic_file.h"
#include "trainers/io/metrics_events.h"

namespace terngrad::train_events_test {
namespace {

namespace fs = std::filesystem;
using testing::metrics_of;
using testing::remove_checkpoints_after;
using testing::SmallMnist;
using testing::TemporaryDirectory;
using testing::train;
using Json = nlohmann::json;

using testing::operator+;
/// Scalars of metrics.jsonl, as event files have them.
std::vector<testing::SeenScalar> scalars_of_metrics(const fs::path& run) {
  std::vector<testing::SeenScalar> scalars;
  std::istringstream text(read_file_text(run / "metrics.jsonl"));
  for (std::string line; std::getline(text, line);) {
    const auto record = nlohmann::ordered_json::parse(line);
    for (const NamedScalar& scalar : scalars_of(record)) {
      scalars.push_back({record["step"].get<std::int64_t>(), scalar.tag, static_cast<float>(scalar.value)});
    }
  }
  return scalars;
}

std::set<int> steps_with_histograms(const fs::path& run) {
  std::set<int> steps;
  std::istringstream text(testing::histograms_of(run));
  for (std::string line; std::getline(text, line);) {
    EXPECT_LT(line.size(), 4096u) << line;
    steps.insert(Json::parse(line).at("step").get<int>());
  }
  return steps;
}

/// The scalars of metrics.jsonl: those of activations are in histograms.jsonl.
std::vector<testing::SeenScalar> without_sparsities(std::vector<testing::SeenScalar> scalars) {
  std::erase_if(scalars, [](const testing::SeenScalar& scalar) { return scalar.tag.starts_with("sparsity/"); });
  return scalars;
}

TEST(TrainCommand, EventFilesSayWhatTheMetricsSay) {
  const SmallMnist mnist;
  const TemporaryDirectory folder;
  const fs::path run = folder / "run";
  const std::vector<std::string> options = mnist.options(run) + std::vector<std::string>{"--max_steps",
                                                                                         "20",
                                                                                         "--save_iter",
                                                                                         "10",
                                                                                         "--num_nodes",
                                                                                         "2",
                                                                                         "--grad_bits",
                                                                                         "1",
                                                                                         "--size_to_binarize",
                                                                                         "0",
                                                                                         "--quantize_logits",
                                                                                         "--log_steps",
                                                                                         "5",
                                                                                         "--telemetry_steps",
                                                                                         "4",
                                                                                         "--eval_steps",
                                                                                         "10",
                                                                                         "--histogram_steps",
                                                                                         "6"};
  ASSERT_EQ(train(options).exit_code, kExitSuccess);
  ASSERT_EQ(testing::event_files(run).size(), 1u);
  const std::vector<testing::SeenScalar> before = without_sparsities(testing::seen_scalars(run));
  EXPECT_EQ(before, scalars_of_metrics(run));
  EXPECT_GT(before.size(), 100u);
  const std::string histograms = testing::histograms_of(run);
  EXPECT_EQ(steps_with_histograms(run), (std::set<int>{6, 12, 18}));
  // A resumed run writes a second file, which makes readers drop the first file's points after the checkpoint.
  remove_checkpoints_after(run, 10);
  ASSERT_EQ(train(options + std::vector<std::string>{"--resume"}).exit_code, kExitSuccess);
  const std::vector<fs::path> files = testing::event_files(run);
  ASSERT_EQ(files.size(), 2u);
  const auto events = testing::read_events(files[1]);
  EXPECT_EQ(events.at(0).file_version(), "brain.Event:2");
  EXPECT_EQ(events.at(1).session_log().status(), tensorboard::SessionLog::START);
  EXPECT_EQ(events.at(1).step(), 11);
  EXPECT_EQ(without_sparsities(testing::seen_scalars(run)), scalars_of_metrics(run));
  std::vector<std::int64_t> histogram_steps;
  for (const auto& event : events) {
    if (event.summary().value_size() > 0 && event.summary().value(0).has_histo())
      histogram_steps.push_back(event.step());
  }
  EXPECT_THAT(histogram_steps, ::testing::ElementsAre(12, 18));
  // Lines after the checkpoint were cut off and written again.
  EXPECT_EQ(testing::histograms_of(run), histograms);
}

TEST(TrainCommand, HistogramsStopWhereARunWithoutThemContinues) {
  const SmallMnist mnist;
  const TemporaryDirectory folder;
  const fs::path run = folder / "run";
  const auto options = [&](const char* histogram_steps) {
    return mnist.options(run) +
           std::vector<std::string>{"--max_steps", "8", "--save_iter", "4", "--histogram_steps", histogram_steps};
  };
  ASSERT_EQ(train(options("2")).exit_code, kExitSuccess);
  EXPECT_EQ(steps_with_histograms(run), (std::set<int>{2, 4, 6, 8}));
  remove_checkpoints_after(run, 4);
  ASSERT_EQ(train(options("0") + std::vector<std::string>{"--resume"}).exit_code, kExitSuccess);
  EXPECT_EQ(steps_with_histograms(run), (std::set<int>{2, 4}));
  const fs::path without = folder / "without";
  ASSERT_EQ(
      train(mnist.options(without) + std::vector<std::string>{"--max_steps", "2", "--histogram_steps", "0"}).exit_code,
      kExitSuccess);
  EXPECT_FALSE(fs::exists(without / "histograms.jsonl"));
}

TEST(TrainCommand, EventFilesChangeNothingElse) {
  const SmallMnist mnist;
  const TemporaryDirectory folder;
  std::vector<std::vector<Json>> metrics;
  std::vector<std::string> checkpoints;
  std::vector<std::string> histograms;
  for (const char* option : {"--tensorboard", "--tensorboard=false"}) {
    const fs::path run = folder / option;
    ASSERT_EQ(train(mnist.options(run) + std::vector<std::string>{"--max_steps", "6", "--num_nodes", "2", "--grad_bits",
                                                                  "1", "--log_steps", "2", "--telemetry_steps", "3",
                                                                  "--histogram_steps", "3", option})
                  .exit_code,
              kExitSuccess);
    metrics.push_back(metrics_of(run));
    histograms.push_back(testing::histograms_of(run));
    checkpoints.push_back(read_file_text(checkpoint_path(run, 6)));
    EXPECT_EQ(testing::event_files(run).size(), option == std::string("--tensorboard") ? 1u : 0u);
  }
  EXPECT_EQ(metrics[0], metrics[1]);
  EXPECT_TRUE(checkpoints[0] == checkpoints[1]);
  EXPECT_FALSE(histograms[0].empty());
  EXPECT_EQ(histograms[0], histograms[1]);
}

}  // namespace
}  // namespace terngrad::train_events_test
