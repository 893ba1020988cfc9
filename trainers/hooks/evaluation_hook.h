// The hook that evaluates during a run.
#pragma once

#include <cstdint>
#include <memory>
#include <optional>
#include <vector>

#include "datasets/dataset.h"
#include "trainers/io/metrics.h"
#include "trainers/launch/progress.h"
#include "trainers/loop/hook.h"

namespace terngrad {

/// Steps after which a run is evaluated, besides the last one.
struct EvaluationSteps {
  std::uint64_t every = 0;                 // after each multiple; 0: none
  std::vector<std::uint64_t> listed = {};  // increasing; 0: before the first step

  bool has(std::uint64_t steps_done) const;
  /// The smallest such number above `steps_done`; kNoSyncStep if there is none.
  std::uint64_t next(std::uint64_t steps_done) const;
};

/// Evaluates the averaged weights on `dataset` after these steps and after the last step, and writes a metrics line of
/// kind "test". A run that stops early is not evaluated at its end, so that its metrics equal those of a longer run.
class EvaluationHook final : public Hook {
 public:
  EvaluationHook(std::shared_ptr<const Dataset> dataset, MetricsWriter& writer, ProgressDisplay& display,
                 EvaluationSteps steps, int num_threads);
  /// Evaluates the current step if it is listed and has no result yet: at the start, and when a run is resumed that was
  /// killed between saving a checkpoint and the evaluation after the same step.
  void before_train(const TrainingView& training) override;
  HookVerdict after_step(const TrainingView& training, const StepView& step) override;
  void after_train(const TrainingView& training) override;
  std::uint64_t next_sync_step(std::uint64_t steps_done) const override;
  /// Records that the metrics already have the result of this step, so that a resumed run does not write it again.
  void set_evaluated(std::uint64_t step) { evaluated_ = step; }

 private:
  void run(const TrainingView& training);
  std::shared_ptr<const Dataset> dataset_;
  MetricsWriter& writer_;
  ProgressDisplay& display_;
  EvaluationSteps steps_;
  int num_threads_;
  std::optional<std::uint64_t> evaluated_;
};

}  // namespace terngrad
