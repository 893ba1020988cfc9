// Runs terngrad_train as a child process that can be killed, and reads the final state of its run directory.
#pragma once

#include <gtest/gtest.h>

#include <chrono>
#include <filesystem>
#include <map>
#include <optional>
#include <string>
#include <vector>

#include "tests/trainers/command_runs.h"

namespace terngrad::testing {

/// Path from an environment variable, or else `of_build`. In a bundle (scripts/gpu/bundle.sh) programs are not in the
/// build folder.
std::string file_from(const char* variable, const char* of_build);

struct ProcessOutcome {
  int exit_code = -1;  // -1: killed by a signal
  int signal = 0;
  std::string err;
};
void PrintTo(const ProcessOutcome& outcome, std::ostream* stream);

/// Runs the command and waits for its end.
/// @param environment  additional variables
/// @param kill_after   if set, SIGKILL is sent after this time
ProcessOutcome run_training(const std::vector<std::string>& arguments,
                            const std::map<std::string, std::string>& environment = {},
                            std::optional<std::chrono::milliseconds> kill_after = std::nullopt);

/// A small run with every kind of metrics line: LeNet on 16 x 16 digits, four workers, ternary gradients.
class SmallTraining {
 public:
  /// Arguments for a run of `max_steps` steps in `train_dir`.
  std::vector<std::string> arguments(const std::filesystem::path& train_dir, int max_steps, int save_iter) const;

 private:
  SmallMnist data_;
};

/// State that contract B4 compares: the bytes of the checkpoint of `step` and of histograms.jsonl, and metrics.jsonl
/// without times. A missing checkpoint is a test failure.
struct FinalState {
  std::string checkpoint;
  std::vector<std::string> metrics;
  std::string histograms;
  friend bool operator==(const FinalState&, const FinalState&) = default;
};
FinalState final_state(const std::filesystem::path& train_dir, std::uint64_t step);

}  // namespace terngrad::testing
