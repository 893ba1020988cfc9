// A run without training for tests of reporting hooks, and readers of what hooks print and write.
#pragma once

#include <gtest/gtest.h>

#include <cstdint>
#include <cstdio>
#include <filesystem>
#include <functional>
#include <limits>
#include <map>
#include <nlohmann/json.hpp>
#include <sstream>
#include <string>
#include <vector>

#include "tests/trainers/small_training.h"
#include "trainers/io/atomic_file.h"
#include "trainers/launch/progress.h"
#include "trainers/loop/hook.h"

namespace terngrad::testing {

/// Two workers; step losses are 1, 2, 3, ...
class FakeRun {
 public:
  FakeRun() {
    report.scalers = {.sent = 16, .received = 18};
    report.gradient = {.sent = 60, .received = 62};
    report.mean = {.sent = 12, .received = 14};
    report.num_workers = 2;
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
            .ema_state = averaged_state,
            .services = {.hook_state = hook_state}};
  }
  HookVerdict step(Hook& hook) {
    ++done;
    const StepView view_of_step{
        .step = done - 1,
        .loss = static_cast<double>(done),
        .accuracy = 0.125,
        .learning_rate = 0.5 / static_cast<double>(done),
        .step_seconds = 0.25,
        .parts_are_timed = parts_are_timed,
        .compute_seconds = 0.5 * static_cast<double>(done),
        .data_seconds = data_seconds,
        .transform_counts = transform_counts,
        .report = report,
        .telemetry =
            [](int segment) {
              TensorTelemetry telemetry;
              telemetry.scaler = 10 + segment;
              telemetry.clip_angle_degrees = 2.5;
              telemetry.snr_db = std::numeric_limits<double>::infinity();
              return telemetry;
            },
    };
    return hook.after_step(view(), view_of_step);
  }

  IdentityNet net{8};
  ExchangeReport report;
  bool parts_are_timed = true;
  double data_seconds = 0;  // part of each step's 0.25 seconds
  TransformCounts transform_counts;
  std::function<std::map<std::string, std::string>()> hook_state;
  std::vector<float> values = std::vector<float>(static_cast<std::size_t>(net.layout().flat_elements()), 0.5f);
  std::vector<float> averaged = std::vector<float>(values.size(), 0.25f);
  std::vector<float> slot = std::vector<float>(values.size(), -1.0f);
  std::vector<float> averaged_state = {0.125f};
  std::uint64_t done = 0;
  std::uint64_t total = 7;
};

/// Records of a metrics file.
inline std::vector<nlohmann::ordered_json> lines_of(const std::filesystem::path& path) {
  std::vector<nlohmann::ordered_json> lines;
  std::istringstream text(read_file_text(path));
  for (std::string line; std::getline(text, line);) lines.push_back(nlohmann::ordered_json::parse(line));
  return lines;
}

/// A metrics record without timings, which differ between equal runs.
inline nlohmann::ordered_json without_times(const nlohmann::ordered_json& line) {
  nlohmann::ordered_json kept = nlohmann::ordered_json::object();
  for (const auto& [key, value] : line.items()) {
    if (!key.ends_with("_seconds") && !key.ends_with("_per_second")) kept[key] = value;
  }
  return kept;
}

/// Output of a ProgressDisplay that `show` uses.
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

}  // namespace terngrad::testing
