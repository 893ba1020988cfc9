// Watching the process that evaluates beside a run: it is no part of the steps, so nothing else would miss it.
#pragma once

#include <chrono>
#include <cstdint>
#include <functional>
#include <memory>
#include <string>

#include "trainers/launch/progress.h"
#include "trainers/loop/hook.h"

namespace terngrad {

/// Decides from a count of heartbeats whether who sends them is missing.
class EvaluatorWatch {
 public:
  using Clock = std::chrono::steady_clock;
  enum class Change { kNone, kMissing, kBack };

  /// @param timeout_seconds  silence for longer means that it is missing; heartbeats come at least 8 times as often
  explicit EvaluatorWatch(double timeout_seconds, Clock::time_point now = Clock::now());

  /// What a look finds. @param num_beats  heartbeats so far
  /// A look that comes late, because this process was itself stopped, finds nobody missing before another one, at least
  /// a quarter of the timeout later: until then there is time for heartbeats to come in.
  Change look(std::uint64_t num_beats, Clock::time_point now = Clock::now());

 private:
  double timeout_seconds_;
  std::uint64_t num_beats_ = 0;
  Clock::time_point last_beat_;
  Clock::time_point doubted_since_ = Clock::time_point::max();
  bool is_missing_ = false;
};

/// Looks after each step, and says on `display` when the evaluator is missing and when it is back. The run continues.
/// @param name       of the evaluator's process, e.g. "rank 2 on node3"
/// @param num_beats  its heartbeats so far; does not wait
std::unique_ptr<Hook> make_evaluator_watch_hook(double timeout_seconds, std::string name, ProgressDisplay& display,
                                                std::function<std::uint64_t()> num_beats);

}  // namespace terngrad
