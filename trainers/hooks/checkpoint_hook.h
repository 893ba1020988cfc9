// The hooks that terngrad_train reports with: progress, metrics, evaluation, checkpoints.
#pragma once

#include <functional>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "trainers/checkpoint/checkpoint.h"
#include "trainers/evaluate/evaluate.h"
#include "trainers/hooks/state_gather.h"
#include "trainers/io/metrics.h"
#include "trainers/launch/progress.h"
#include "trainers/loop/hook.h"
#include "trainers/loop/part_seconds.h"

namespace terngrad {

/// Totals of the steps since the last report.
struct Interval {
  std::uint64_t steps = 0;
  double loss = 0;      // sum
  double accuracy = 0;  // sum
  std::uint64_t skipped_steps = 0;
  std::uint64_t nonfinite_steps = 0;  // steps, skipped or not, with NaN or infinity in a gradient
  TransformCounts transform_counts;   // sums
  ExchangeBytes bytes;                // sums, of the steps that were not skipped
  PushCounts pushes;                  // sums, of asynchronous training
  // Time is of this process only: the steps that it ran, and theirs.
  std::uint64_t timed_steps = 0;
  double seconds = 0;
  std::uint64_t steps_with_parts = 0;  // those of whose parts the time is known
  PartSeconds parts;

  void add(const StepView& step);
  /// All but the times, exactly, as text that parse_interval reads.
  std::string to_text() const;
};

/// Also reads what versions before wrote, whose bytes are left out: they counted what a worker sends to several others
/// once.
/// @throws DataError if `text` is neither
Interval parse_interval(const std::string& text);

/// Name under which CheckpointHook keeps the interval that a save falls into, in CheckpointState::more.
inline constexpr const char* kIntervalKey = "metrics_interval";

/// Draws the live line, or one log line every `log_steps` and for the steps since at the end of the run. The first step
/// of each such interval with NaN or infinity in a gradient gets a line of its own that says where and what was done
/// about it, and the end of the run one that says how many steps were skipped, if any were.
/// @param begun  of the metrics hook, as a resumed run begins: log lines are means over the steps of metrics.jsonl's
std::unique_ptr<Hook> make_progress_hook(ProgressDisplay& display, std::uint64_t log_steps, const Interval& begun = {});

/// Appends to metrics.jsonl: every `log_steps` a line of kind "train", every `telemetry_steps` (0: never) one of kind
/// "tensors". docs/measuring.md lists their fields. Those whose names end in _seconds or _per_second are times; all
/// others are the same for equal runs.
/// @param interval  outlives the hook; not empty in a run that was saved between two lines and is resumed
std::unique_ptr<Hook> make_metrics_hook(MetricsWriter& writer, std::uint64_t log_steps, std::uint64_t telemetry_steps,
                                        Interval& interval);

/// Evaluates the averaged weights on `dataset` every `eval_steps` (0: never) and after the last step of the run; writes
/// a line of kind "test". A run that is stopped before is not evaluated: its metrics are those of a run that goes on.
class EvaluationHook final : public Hook {
 public:
  EvaluationHook(std::shared_ptr<const Dataset> dataset, MetricsWriter& writer, ProgressDisplay& display,
                 std::uint64_t eval_steps, int num_threads);
  /// Checkpoints are saved before the evaluation after the same step, so a run can be killed between the two: resumed
  /// at a step that is to be evaluated, it begins with the line that is missing.
  void before_train(const TrainingView& training) override;
  HookVerdict after_step(const TrainingView& training, const StepView& step) override;
  void after_train(const TrainingView& training) override;
  std::uint64_t next_look(std::uint64_t steps_done) const override;
  /// Says that the metrics have the result of this step already: a resumed run writes no line twice.
  void set_evaluated(std::uint64_t step) { evaluated_ = step; }

 private:
  void run(const TrainingView& training);
  std::shared_ptr<const Dataset> dataset_;
  MetricsWriter& writer_;
  ProgressDisplay& display_;
  std::uint64_t eval_steps_;
  int num_threads_;
  std::optional<std::uint64_t> evaluated_;
};

/// What a run does when a checkpoint cannot be written.
enum class OnSaveError {
  kStop,      // the error is passed on
  kContinue,  // it is shown, training goes on, and the next save is tried at its time; only the last one must succeed
};

struct CheckpointHookOptions {
  Folder folder;
  std::uint64_t save_steps = 1;
  int keep_last = 0;  // newest checkpoints to keep; 0: all
  OnSaveError on_error = OnSaveError::kStop;
  bool save_at_start = false;  // also before the first step, for runs whose beginning cannot be computed again
};

/// Saves a checkpoint every `save_steps` and at the end, after what was reported up to it is on the medium. Earlier
/// checkpoints are intact until the new one is on the medium, whatever fails. Where there are several ranks, it runs on
/// the chief, and the others send their part by make_state_sender_hook.
class CheckpointHook final : public Hook {
 public:
  /// @param state         its step is filled in at each save
  /// @param sync_reports  called before each save: returns once all that the hooks before this one wrote is on the
  ///                      medium, or throws a DataError
  /// @param interval      that of the metrics hook, which comes before this one; a save between two lines keeps it
  CheckpointHook(CheckpointHookOptions options, CheckpointState state, std::function<void()> sync_reports,
                 const Interval& interval, ProgressDisplay& display);
  void before_train(const TrainingView& training) override;
  HookVerdict after_step(const TrainingView& training, const StepView& step) override;
  void after_train(const TrainingView& training) override;
  std::uint64_t next_look(std::uint64_t steps_done) const override;

 private:
  StateGatherTimes gather_times() const;
  /// Every rank's states, gathered once for a step: a save that failed and is tried again asks nobody.
  std::span<const Buffer<float>> states_of(const TrainingView& training);
  void save(const TrainingView& training);
  CheckpointHookOptions options_;
  CheckpointState state_;
  std::function<void()> sync_reports_;
  const Interval& interval_;
  ProgressDisplay& display_;
  std::optional<std::uint64_t> saved_;
  std::vector<Buffer<float>> states_;
  std::optional<std::uint64_t> gathered_;
};

}  // namespace terngrad
