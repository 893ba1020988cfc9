#include "trainers/hooks/evaluation_hook.h"

#include <nlohmann/json.hpp>
#include <string>
#include <utility>

#include "trainers/evaluate/evaluate.h"

namespace terngrad {

EvaluationHook::EvaluationHook(std::shared_ptr<const Dataset> dataset, MetricsWriter& writer, ProgressDisplay& display,
                               std::uint64_t eval_steps, int num_threads)
    : dataset_(std::move(dataset)),
      writer_(writer),
      display_(display),
      eval_steps_(eval_steps),
      num_threads_(num_threads) {}

void EvaluationHook::before_train(const TrainingView& training) {
  const bool is_due = eval_steps_ != 0 && training.steps_done > 0 && training.steps_done % eval_steps_ == 0;
  if (is_due && evaluated_ != training.steps_done) run(training);
}

HookVerdict EvaluationHook::after_step(const TrainingView& training, const StepView&) {
  if (eval_steps_ != 0 && training.steps_done % eval_steps_ == 0) run(training);
  return HookVerdict::kContinue;
}

std::uint64_t EvaluationHook::next_sync_step(std::uint64_t steps_done) const {
  return next_multiple(eval_steps_, steps_done);
}

void EvaluationHook::after_train(const TrainingView& training) {
  if (training.steps_done == training.total_steps && evaluated_ != training.steps_done) run(training);
}

void EvaluationHook::run(const TrainingView& training) {
  // The other ranks may be in the next step, waiting.
  const auto send_heartbeat = [&] {
    if (training.send_heartbeat) training.send_heartbeat();
  };
  const Evaluation averaged =
      evaluate(training.net, training.ema, training.ema_state, *dataset_, num_threads_, send_heartbeat);
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
