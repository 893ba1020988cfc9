#include "trainers/hooks/evaluation_hook.h"

#include <algorithm>
#include <nlohmann/json.hpp>
#include <string>
#include <utility>

#include "trainers/evaluate/evaluate.h"

namespace terngrad {

bool EvaluationSteps::has(std::uint64_t steps_done) const {
  const bool is_multiple = every != 0 && steps_done > 0 && steps_done % every == 0;
  return is_multiple || std::ranges::binary_search(listed, steps_done);
}

std::uint64_t EvaluationSteps::next(std::uint64_t steps_done) const {
  const auto above = std::ranges::upper_bound(listed, steps_done);
  return std::min(next_multiple(every, steps_done), above == listed.end() ? kNoSyncStep : *above);
}

EvaluationHook::EvaluationHook(std::shared_ptr<const Dataset> dataset, MetricsWriter& writer, ProgressDisplay& display,
                               EvaluationSteps steps, int num_threads)
    : dataset_(std::move(dataset)),
      writer_(writer),
      display_(display),
      steps_(std::move(steps)),
      num_threads_(num_threads) {}

void EvaluationHook::before_train(const TrainingView& training) {
  if (steps_.has(training.steps_done) && evaluated_ != training.steps_done) run(training);
}

HookVerdict EvaluationHook::after_step(const TrainingView& training, const StepView&) {
  if (steps_.has(training.steps_done)) run(training);
  return HookVerdict::kContinue;
}

std::uint64_t EvaluationHook::next_sync_step(std::uint64_t steps_done) const { return steps_.next(steps_done); }

void EvaluationHook::after_train(const TrainingView& training) {
  if (training.steps_done == training.total_steps && evaluated_ != training.steps_done) run(training);
}

void EvaluationHook::run(const TrainingView& training) {
  // The other ranks may already wait in the next step.
  const auto send_heartbeat = [&] {
    if (training.services.send_heartbeat) training.services.send_heartbeat();
  };
  const Evaluation averaged = evaluate(training.net, training.ema, training.ema_state, *dataset_,
                                       {.num_threads = num_threads_, .between = send_heartbeat});
  evaluated_ = training.steps_done;
  writer_.write({{"step", training.steps_done},
                 {"kind", "test"},
                 {"weights", "ema"},
                 {"top1", averaged.top1},
                 {"top5", averaged.top5},
                 {"loss", averaged.loss},
                 {"examples", averaged.num_examples}});
  display_.message("step " + std::to_string(training.steps_done) + " test " + to_string(averaged));
}

}  // namespace terngrad
