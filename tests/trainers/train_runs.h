// Runs of terngrad_train on a small data set, and readers of their output.
#pragma once

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <cstdint>
#include <filesystem>
#include <nlohmann/json.hpp>
#include <sstream>
#include <string>
#include <vector>

#include "tests/trainers/command_runs.h"
#include "trainers/checkpoint/checkpoint.h"
#include "trainers/io/atomic_file.h"

namespace terngrad::testing {

/// Metrics records of a run without timings, which differ between equal runs.
inline std::vector<nlohmann::json> metrics_of(const std::filesystem::path& run) {
  std::vector<nlohmann::json> lines;
  std::istringstream text(read_file_text(run / "metrics.jsonl"));
  for (std::string line; std::getline(text, line);) {
    nlohmann::json object = nlohmann::json::object();
    const nlohmann::json all = nlohmann::json::parse(line);
    for (const auto& [key, value] : all.items()) {
      if (!key.ends_with("_seconds") && !key.ends_with("_per_second")) object[key] = value;
    }
    lines.push_back(std::move(object));
  }
  return lines;
}

/// Content of histograms.jsonl, byte-identical for equal runs; empty if there is no such file.
inline std::string histograms_of(const std::filesystem::path& run) {
  const std::filesystem::path path = run / "histograms.jsonl";
  return std::filesystem::exists(path) ? read_file_text(path) : "";
}

/// Expects exit code 2 and one line on stderr that contains all `words`.
inline void expect_usage_error(const CommandOutcome& outcome, const std::vector<std::string>& words) {
  EXPECT_EQ(outcome.exit_code, kExitUsage) << ::testing::PrintToString(outcome);
  EXPECT_EQ(outcome.out, "");
  EXPECT_THAT(outcome.err, ::testing::StartsWith("terngrad_train: error: "));
  EXPECT_EQ(std::ranges::count(outcome.err, '\n'), 1) << outcome.err;
  for (const std::string& word : words) EXPECT_THAT(outcome.err, ::testing::HasSubstr(word));
}

/// Deletes the checkpoints after `step`, so that a run resumes there.
inline void remove_checkpoints_after(const std::filesystem::path& run, std::uint64_t step) {
  for (const CheckpointFile& file : list_checkpoints(run)) {
    if (file.step > step) std::filesystem::remove(file.path);
  }
}

/// Runs 20 steps, resumes from the checkpoint of step `from`, and expects equal results.
inline void expect_equal_resume(const std::vector<std::string>& more, std::uint64_t from) {
  const SmallMnist mnist;
  const TemporaryDirectory folder;
  const std::filesystem::path run = folder / "run";
  const std::vector<std::string> options =
      mnist.options(run) +
      std::vector<std::string>{"--max_steps", "20", "--save_iter", "10", "--keep_checkpoints", "0"} + more;
  const CommandOutcome whole = train(options);
  ASSERT_EQ(whole.exit_code, kExitSuccess) << ::testing::PrintToString(whole);
  const std::string checkpoint = read_file_text(checkpoint_path(run, 20));
  const std::vector<nlohmann::json> metrics = metrics_of(run);
  const std::string histograms = histograms_of(run);
  remove_checkpoints_after(run, from);
  const CommandOutcome resumed = train(options + std::vector<std::string>{"--resume"});
  ASSERT_EQ(resumed.exit_code, kExitSuccess) << ::testing::PrintToString(resumed);
  EXPECT_THAT(resumed.err, ::testing::HasSubstr("resumed after step " + std::to_string(from)));
  EXPECT_TRUE(read_file_text(checkpoint_path(run, 20)) == checkpoint);
  EXPECT_EQ(metrics_of(run), metrics);
  EXPECT_EQ(histograms_of(run), histograms);
  EXPECT_EQ(nlohmann::json::parse(read_file_text(run / "config.json"))["history"].size(), 2u);
}

/// Options with a learning rate at which parameters become non-finite within a few steps.
inline std::vector<std::string> exploding(const SmallMnist& mnist, const std::filesystem::path& run) {
  return mnist.options(run) +
         std::vector<std::string>{"--initial_learning_rate", "1e30", "--max_steps", "8", "--log_steps", "4"};
}

/// Values of all tensors of a checkpoint group, concatenated.
inline std::vector<float> group_of(const std::filesystem::path& path, const char* group) {
  const Checkpoint checkpoint = load_checkpoint(path);
  std::vector<float> values;
  for (const TensorRecord& tensor : checkpoint.tensors()) {
    if (!tensor.name.starts_with(std::string(group) + "/")) continue;
    const auto* begin = reinterpret_cast<const float*>(tensor.bytes.data());
    values.insert(values.end(), begin, begin + tensor.bytes.size() / sizeof(float));
  }
  return values;
}

}  // namespace terngrad::testing
