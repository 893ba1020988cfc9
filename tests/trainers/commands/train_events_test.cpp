// Event files of terngrad_train beside its metrics.
#include "trainers/commands/train_command.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cstdint>
#include <filesystem>
#include <nlohmann/json.hpp>
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
using testing::expect_usage_error;
using testing::metrics_of;
using testing::SmallMnist;
using testing::TemporaryDirectory;
using testing::train;
using Json = nlohmann::json;

using testing::operator+;
/// What metrics.jsonl says, as event files say it.
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
  const std::vector<testing::SeenScalar> before = testing::seen_scalars(run);
  EXPECT_EQ(before, scalars_of_metrics(run));
  EXPECT_GT(before.size(), 100u);
  // A resumed run has a second file, which makes readers drop what comes after the checkpoint in the first.
  remove_checkpoints_after(run, 10);
  ASSERT_EQ(train(options + std::vector<std::string>{"--resume"}).exit_code, kExitSuccess);
  const std::vector<fs::path> files = testing::event_files(run);
  ASSERT_EQ(files.size(), 2u);
  const auto events = testing::read_events(files[1]);
  EXPECT_EQ(events.at(0).file_version(), "brain.Event:2");
  EXPECT_EQ(events.at(1).session_log().status(), tensorboard::SessionLog::START);
  EXPECT_EQ(events.at(1).step(), 11);
  EXPECT_EQ(testing::seen_scalars(run), scalars_of_metrics(run));
  std::vector<std::int64_t> histogram_steps;
  for (const auto& event : events) {
    if (event.summary().value_size() > 0 && event.summary().value(0).has_histo())
      histogram_steps.push_back(event.step());
  }
  EXPECT_THAT(histogram_steps, ::testing::ElementsAre(12, 18));
}

TEST(TrainCommand, EventFilesChangeNothingElse) {
  const SmallMnist mnist;
  const TemporaryDirectory folder;
  std::vector<std::vector<Json>> metrics;
  std::vector<std::string> checkpoints;
  for (const char* option : {"--tensorboard", "--tensorboard=false"}) {
    const fs::path run = folder / option;
    ASSERT_EQ(
        train(mnist.options(run) + std::vector<std::string>{"--max_steps", "6", "--num_nodes", "2", "--grad_bits", "1",
                                                            "--log_steps", "2", "--telemetry_steps", "3", option})
            .exit_code,
        kExitSuccess);
    metrics.push_back(metrics_of(run));
    checkpoints.push_back(read_file_text(checkpoint_path(run, 6)));
    EXPECT_EQ(testing::event_files(run).size(), option == std::string("--tensorboard") ? 1u : 0u);
  }
  EXPECT_EQ(metrics[0], metrics[1]);
  EXPECT_TRUE(checkpoints[0] == checkpoints[1]);
  expect_usage_error(train({"--tensorboard=false", "--histogram_steps", "5"}), {"--histogram_steps", "--tensorboard"});
}

}  // namespace
}  // namespace terngrad::train_events_test
