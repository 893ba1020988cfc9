// terngrad_eval as a function.
#pragma once

#include <filesystem>
#include <functional>
#include <string>

namespace terngrad {

/// A run whose checkpoints are evaluated while it goes on.
struct FollowedRun {
  std::filesystem::path directory;
  std::string data_dir;
  int threads = 0;  // 0: all of the machine
};

/// Evaluates each new checkpoint on the CPU as terngrad_eval --eval_interval_secs does: averaged weights, the whole
/// test set, results on stdout and in the folder `eval` of the run.
/// @param wait  waits until it is time to look again; @returns true once there will be no further checkpoint
/// @throws what terngrad_eval would fail with
void evaluate_run(const FollowedRun& run, const std::function<bool()>& wait);

/// Runs the command. @returns the exit code; throws what command_main maps to one
int run_eval(int argc, char** argv);

}  // namespace terngrad
