// terngrad_eval as a function.
#pragma once

#include <filesystem>
#include <functional>
#include <memory>
#include <string>

namespace terngrad {

/// A run whose checkpoints are evaluated while it continues.
struct FollowedRun {
  std::filesystem::path directory;
  std::string data_dir;
  int threads = 0;  // 0: all of the machine
};

/// Evaluates every checkpoint of a run on the CPU as terngrad_eval does: averaged weights, the whole test set, results
/// on stdout and in the folder `eval` of the run. Those that the folder has results of are left out, and those that the
/// run has deleted before their turn.
class RunEvaluator {
 public:
  /// @param problem    is told what failed, once in the same words
  /// @param send_heartbeat  called now and then during an evaluation; may be empty
  RunEvaluator(FollowedRun run, std::function<void(const std::string& what)> problem,
               std::function<void()> send_heartbeat = {});
  RunEvaluator(const RunEvaluator&) = delete;
  RunEvaluator& operator=(const RunEvaluator&) = delete;
  ~RunEvaluator();

  /// Evaluates what is there and was not evaluated yet, in order of steps. What terngrad_eval would fail with is told,
  /// and tried again at the next look.
  /// @param is_over  asked between checkpoints: whether the rest is to be left; may be empty
  /// @returns whether nothing failed
  bool look(const std::function<bool()>& is_over = {});
  /// The same with the newest checkpoint alone.
  bool look_at_newest();

 private:
  struct Parts;
  enum class Which { kAll, kNewest };
  bool look_at(Which which, const std::function<bool()>& is_over);
  std::unique_ptr<Parts> parts_;
};

/// Runs the command. @returns the exit code; throws what command_main maps to one
int run_eval(int argc, char** argv);

}  // namespace terngrad
