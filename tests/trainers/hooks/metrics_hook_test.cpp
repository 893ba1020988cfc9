#include "trainers/hooks/metrics_hook.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <limits>
#include <memory>
#include <nlohmann/json.hpp>
#include <string>
#include <vector>

#include "kernels/runtime/errors.h"
#include "tests/trainers/fake_run.h"
#include "tests/trainers/temporary_directory.h"

namespace terngrad::metrics_hook_test {
namespace {

using ::testing::ElementsAre;
using Json = nlohmann::ordered_json;
using testing::FakeRun;
using testing::lines_of;
using testing::TemporaryDirectory;

class MetricsHook : public ::testing::Test {
 protected:
  std::unique_ptr<Hook> make_hook(std::uint64_t log_steps, std::uint64_t telemetry_steps) {
    return make_metrics_hook(writer_, log_steps, telemetry_steps);
  }
  std::vector<Json> written() const { return lines_of(folder_ / "m.jsonl"); }

  TemporaryDirectory folder_;
  MetricsWriter writer_{folder_ / "m.jsonl"};
  FakeRun run_;
};

TEST_F(MetricsHook, WritesMeansOverTheInterval) {
  const auto hook = make_hook(3, 0);
  for (int i = 0; i < 7; ++i) EXPECT_EQ(run_.step(*hook), HookVerdict::kContinue);
  const std::vector<Json> lines = written();
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

TEST_F(MetricsHook, TimesOfPartsAreMeansOfTheStepsThatAreTimed) {
  const auto hook = make_hook(4, 0);
  for (const double wire : {1.0, 2.0, 6.0}) {
    run_.report.wire_seconds = wire;
    run_.step(*hook);
  }
  run_.parts_are_timed = false;
  run_.report.wire_seconds = 100;
  run_.step(*hook);
  const Json line = written().at(0);
  EXPECT_EQ(line["wire_seconds"], 3.0);
  EXPECT_EQ(line["compute_seconds"], 1.0);
  for (int i = 0; i < 4; ++i) run_.step(*hook);
  EXPECT_FALSE(written().at(1).contains("wire_seconds"));
}

TEST_F(MetricsHook, FieldsAreTheDocumentedOnes) {
  const auto hook = make_hook(1, 0);
  run_.step(*hook);
  const Json line = written().at(0);
  std::vector<std::string> keys;
  for (const auto& item : line.items()) keys.push_back(item.key());
  EXPECT_THAT(keys,
              ElementsAre("step", "kind", "loss", "accuracy", "learning_rate", "skipped_steps", "nonfinite_steps",
                          "zeroed_elements", "clipped_gradients", "wire_bytes_per_worker", "wire_ratio",
                          "examples_per_second", "data_seconds", "compute_seconds", "measure_seconds", "encode_seconds",
                          "wire_seconds", "decode_seconds", "hidden_seconds", "exposed_seconds", "update_seconds"));
  // The report's bytes are sums over two workers.
  const Json& bytes = line["wire_bytes_per_worker"];
  EXPECT_EQ(bytes["sent"], (Json{{"scalers", 8.0}, {"gradient", 30.0}, {"mean", 6.0}}));
  EXPECT_EQ(bytes["received"], (Json{{"scalers", 9.0}, {"gradient", 31.0}, {"mean", 7.0}}));
  // An fp32 ring all-reduce of 11 elements between two workers, divided by the 47 bytes that a worker receives.
  EXPECT_EQ(line["wire_ratio"], 11 * 4 / 47.0);
}

TEST_F(MetricsHook, BytesAreMeansOverTheInterval) {
  std::map<std::string, std::string> entries;
  {
    const auto hook = make_hook(2, 0);
    run_.step(*hook);
    hook->save_state(entries);
  }
  // Resumed in between; the last step moves no bytes.
  const auto hook = make_hook(2, 0);
  hook->restore_state(entries);
  run_.report = {};
  run_.report.num_workers = 2;
  run_.step(*hook);
  std::map<std::string, std::string> at_a_line;
  hook->save_state(at_a_line);
  EXPECT_TRUE(at_a_line.empty());
  const Json line = written().at(0);
  const Json& bytes = line["wire_bytes_per_worker"];
  EXPECT_EQ(bytes["sent"], (Json{{"scalers", 4.0}, {"gradient", 15.0}, {"mean", 3.0}}));
  EXPECT_EQ(bytes["received"], (Json{{"scalers", 4.5}, {"gradient", 15.5}, {"mean", 3.5}}));
  EXPECT_EQ(line["wire_ratio"], 2 * 11 * 4 / 47.0);
}

TEST_F(MetricsHook, SkippedStepsDoNotCountInTheBytes) {
  const auto hook = make_hook(2, 0);
  run_.step(*hook);
  run_.report.skipped = true;
  run_.report.gradient = {};  // scalers were sent
  run_.step(*hook);
  EXPECT_EQ(written().at(0)["wire_ratio"], 11 * 4 / 47.0);
  EXPECT_EQ(written().at(0)["wire_bytes_per_worker"]["sent"]["scalers"], 8.0);
  for (int i = 0; i < 2; ++i) run_.step(*hook);
  EXPECT_EQ(written().at(1)["skipped_steps"], 2);
  EXPECT_FALSE(written().at(1).contains("wire_ratio"));
  EXPECT_FALSE(written().at(1).contains("wire_bytes_per_worker"));
}

TEST_F(MetricsHook, TheBusiestLinkIsAServers) {
  const auto hook = make_hook(1, 0);
  run_.report.servers = {.sent = 60, .received = 500};
  run_.report.num_servers = 2;
  run_.step(*hook);
  const Json line = written().at(0);
  EXPECT_EQ(line["wire_bytes_per_server"], (Json{{"sent", 30.0}, {"received", 250.0}}));
  EXPECT_EQ(line["wire_ratio"], 11 * 4 / 250.0);
}

TEST_F(MetricsHook, WithoutMessagesThereIsNoRatio) {
  const auto hook = make_hook(1, 0);
  run_.report = {};
  run_.step(*hook);
  EXPECT_FALSE(written().at(0).contains("wire_ratio"));
  EXPECT_FALSE(written().at(0).contains("wire_bytes_per_worker"));
}

TEST_F(MetricsHook, CountsSkippedAndNonfiniteSteps) {
  const auto hook = make_hook(3, 1);
  run_.step(*hook);
  run_.report.nonfinite = "step 1: tensor 'a' of worker 1 holds NaN or infinity";
  run_.step(*hook);
  run_.report.skipped = true;
  run_.step(*hook);
  run_.report.skipped = false;
  run_.report.nonfinite = "";
  for (int i = 0; i < 3; ++i) run_.step(*hook);
  std::vector<Json> train;
  std::vector<std::uint64_t> tensors;
  for (const Json& line : written()) {
    if (line["kind"] == "train") train.push_back(line);
    if (line["kind"] == "tensors") tensors.push_back(line["step"]);
  }
  ASSERT_EQ(train.size(), 2u);
  EXPECT_EQ(train[0]["skipped_steps"], 1);
  EXPECT_EQ(train[0]["nonfinite_steps"], 2);
  EXPECT_EQ(train[1]["skipped_steps"], 0);
  EXPECT_EQ(train[1]["nonfinite_steps"], 0);
  // A skipped step has no message to compare.
  EXPECT_THAT(tensors, ElementsAre(1, 2, 4, 5, 6));
}

TEST_F(MetricsHook, SumsWhatTransformsChanged) {
  const auto hook = make_hook(3, 0);
  run_.transform_counts = {.zeroed_elements = 5'000'000'000, .clipped_gradients = 2};
  for (int i = 0; i < 3; ++i) run_.step(*hook);
  run_.transform_counts = {};
  for (int i = 0; i < 3; ++i) run_.step(*hook);
  const std::vector<Json> lines = written();
  ASSERT_EQ(lines.size(), 2u);
  EXPECT_EQ(lines[0]["zeroed_elements"], 15'000'000'000);
  EXPECT_EQ(lines[0]["clipped_gradients"], 6);
  EXPECT_EQ(lines[1]["zeroed_elements"], 0);
  EXPECT_EQ(lines[1]["clipped_gradients"], 0);
}

TEST_F(MetricsHook, TelemetryNamesEveryTensor) {
  const auto hook = make_hook(100, 2);
  for (int i = 0; i < 5; ++i) run_.step(*hook);
  const std::vector<Json> lines = written();
  ASSERT_EQ(lines.size(), 2u);
  EXPECT_EQ(lines[0]["step"], 2);
  EXPECT_EQ(lines[1]["step"], 4);
  EXPECT_EQ(lines[0]["kind"], "tensors");
  EXPECT_EQ(lines[0]["tensors"]["a"]["scaler"], 10.0);
  EXPECT_EQ(lines[0]["tensors"]["b"]["scaler"], 11.0);
  EXPECT_TRUE(lines[0]["tensors"]["b"]["snr_db"].is_null());  // infinite
  EXPECT_EQ(lines[0]["tensors"]["a"]["clip_angle_degrees"], 2.5);
  std::vector<std::string> keys;
  for (const auto& item : lines[0]["tensors"]["a"].items()) keys.push_back(item.key());
  EXPECT_THAT(keys, ElementsAre("scaler", "zero_fraction", "clip_fraction", "kept_norm", "clip_angle_degrees", "snr_db",
                                "norm", "max_abs"));
}

TEST_F(MetricsHook, EqualRunsGiveEqualLinesLessTimes) {
  std::vector<std::vector<Json>> runs;
  for (const char* name : {"1.jsonl", "2.jsonl"}) {
    MetricsWriter writer(folder_ / name);
    const auto trainer = testing::make_small_trainer({.num_workers = 2, .codec = "ternary"});
    trainer->add_hook(make_metrics_hook(writer, 2, 3));
    trainer->run();
    std::vector<Json> lines;
    for (const Json& line : lines_of(folder_ / name)) lines.push_back(testing::without_times(line));
    runs.push_back(std::move(lines));
  }
  ASSERT_EQ(runs[0].size(), 5u);
  EXPECT_EQ(runs[0], runs[1]);
  EXPECT_GT(runs[0][0]["wire_ratio"], 5.0);
}

}  // namespace
}  // namespace terngrad::metrics_hook_test
