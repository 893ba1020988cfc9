// terngrad_train as its own process that can be killed, and what its run directory holds afterwards.
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

/// The file that an environment variable names, or that of the build. Programs in a bundle (scripts/gpu/bundle.sh) have
/// another neighbour than their build folder.
std::string file_from(const char* variable, const char* of_build);

struct ProcessOutcome {
  int exit_code = -1;  // -1: ended by a signal
  int signal = 0;
  std::string err;
};
void PrintTo(const ProcessOutcome& outcome, std::ostream* stream);

/// Runs the command and waits for its end.
/// @param environment  variables added to this process's
/// @param kill_after   if given, SIGKILL is sent after this time
ProcessOutcome run_training(const std::vector<std::string>& arguments,
                            const std::map<std::string, std::string>& environment = {},
                            std::optional<std::chrono::milliseconds> kill_after = std::nullopt);

/// A small run: LeNet on 16 x 16 digits, four workers, ternary gradients, with every kind of line in its metrics.
class SmallTraining {
 public:
  /// Arguments of a run of `max_steps` steps in `train_dir`.
  std::vector<std::string> arguments(const std::filesystem::path& train_dir, int max_steps, int save_iter) const;

 private:
  SmallMnist data_;
};

/// All that contract B4 compares: the bytes of the checkpoint of `step` and of histograms.jsonl, and metrics.jsonl
/// without its times. A missing
/// checkpoint is a test failure.
struct FinalState {
  std::string checkpoint;
  std::vector<std::string> metrics;
  std::string histograms;
  friend bool operator==(const FinalState&, const FinalState&) = default;
};
FinalState final_state(const std::filesystem::path& train_dir, std::uint64_t step);

}  // namespace terngrad::testing
