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

/// After how many steps a run is evaluated, besides after its last one.
struct EvaluationSteps {
  std::uint64_t every = 0;                 // after each multiple of it; 0: none
  std::vector<std::uint64_t> listed = {};  // increasing; 0: before the first step

  bool has(std::uint64_t steps_done) const;
  /// The smallest one above `steps_done`; kNoSyncStep if there is none.
  std::uint64_t next(std::uint64_t steps_done) const;
};

/// Evaluates the averaged weights on `dataset` after these steps and after the last step of the run; writes a line of
/// kind "test". A run that is stopped before is not evaluated: its metrics are those of a run that continues.
class EvaluationHook final : public Hook {
 public:
  EvaluationHook(std::shared_ptr<const Dataset> dataset, MetricsWriter& writer, ProgressDisplay& display,
                 EvaluationSteps steps, int num_threads);
  /// Evaluates the start if that is asked for. Checkpoints are saved before the evaluation after the same step, so a
  /// run can be killed between the two: resumed at a step that is to be evaluated, it begins with the line that is
  /// missing.
  void before_train(const TrainingView& training) override;
  HookVerdict after_step(const TrainingView& training, const StepView& step) override;
  void after_train(const TrainingView& training) override;
  std::uint64_t next_sync_step(std::uint64_t steps_done) const override;
  /// Says that the metrics have the result of this step already: a resumed run writes no line twice.
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
