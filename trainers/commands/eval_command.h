// terngrad_eval as a function.
#pragma once

#include <filesystem>
#include <functional>
#include <memory>
#include <string>

namespace terngrad {

/// A run whose checkpoints are evaluated while it trains.
struct FollowedRun {
  std::filesystem::path directory;
  std::string data_dir;
  int threads = 0;  // 0: all of the machine
};

/// Evaluates every checkpoint of a run on the CPU as terngrad_eval does: averaged weights, the whole test set, results
/// on stdout and in the folder `eval` of the run. Skips checkpoints that have results in this folder, and those that
/// the run has deleted meanwhile.
class RunEvaluator {
 public:
  /// @param problem         called with each error message, once per text
  /// @param send_heartbeat  called regularly during an evaluation; may be empty
  RunEvaluator(FollowedRun run, std::function<void(const std::string& what)> problem,
               std::function<void()> send_heartbeat = {});
  RunEvaluator(const RunEvaluator&) = delete;
  RunEvaluator& operator=(const RunEvaluator&) = delete;
  ~RunEvaluator();

  /// Evaluates all new checkpoints in order of steps. Errors are reported to `problem`, and retried at the next call.
  /// @param is_over  called between checkpoints: returns true to skip the rest; may be empty
  /// @returns true if nothing failed
  bool look(const std::function<bool()>& is_over = {});
  /// The same for the newest checkpoint only.
  bool look_at_newest();

 private:
  struct Parts;
  enum class Which { kAll, kNewest };
  bool look_at(Which which, const std::function<bool()>& is_over);
  std::unique_ptr<Parts> parts_;
};

/// Runs the command. @returns the exit code. @throws exceptions that command_main maps to one
int run_eval(int argc, char** argv);

}  // namespace terngrad
