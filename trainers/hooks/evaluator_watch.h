// EvaluatorWatch: monitors the process that evaluates during a run, which takes no part in the steps.
#pragma once

#include <chrono>
#include <cstdint>
#include <functional>
#include <memory>
#include <string>

#include "trainers/launch/progress.h"
#include "trainers/loop/hook.h"

namespace terngrad {

/// Decides from a count of heartbeats if their sender is missing.
class EvaluatorWatch {
 public:
  using Clock = std::chrono::steady_clock;
  enum class Change { kNone, kMissing, kBack };

  /// @param timeout_seconds  the sender is missing after a longer silence; it sends 8 heartbeats or more in this time
  explicit EvaluatorWatch(double timeout_seconds, Clock::time_point now = Clock::now());

  /// Checks the count. After a timeout, the sender is missing only if another check, at least a quarter of the timeout
  /// later, finds no heartbeat either: so heartbeats have time to arrive if this process itself was suspended.
  /// @param num_beats  heartbeats so far
  Change look(std::uint64_t num_beats, Clock::time_point now = Clock::now());

 private:
  double timeout_seconds_;
  std::uint64_t num_beats_ = 0;
  Clock::time_point last_beat_;
  Clock::time_point doubted_since_ = Clock::time_point::max();
  bool is_missing_ = false;
};

/// A hook that checks after each step, and reports on `display` when the evaluator goes missing or comes back.
/// @param name       name of the evaluator's process, e.g. "rank 2 on node3"
/// @param num_beats  returns the number of its heartbeats so far, without blocking
std::unique_ptr<Hook> make_evaluator_watch_hook(double timeout_seconds, std::string name, ProgressDisplay& display,
                                                std::function<std::uint64_t()> num_beats);

}  // namespace terngrad
