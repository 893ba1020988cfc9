#include "trainers/loop/noop_trainer.h"

#include <chrono>
#include <utility>

#include "kernels/runtime/stopwatch.h"
#include "trainers/loop/step_reduction.h"

namespace terngrad {

// The base class holds references to parts that are moved afterwards; the objects keep their addresses.
NoopTrainer::NoopTrainer(std::unique_ptr<Net> net, std::unique_ptr<Optimizer> optimizer, const Schedule& schedule,
                         const TrainerOptions& options)
    : Trainer(*net, *optimizer, schedule, make_worker_group(1, make_self_communicator()), options),
      net_(std::move(net)),
      optimizer_(std::move(optimizer)) {}

std::uint64_t NoopTrainer::run() {
  begin();
  while (!is_done()) {
    auto mark = std::chrono::steady_clock::now();
    if (next_change_step(steps_done()) == steps_done()) change();
    // Hooks ask a skipped exchange for no mean and no message.
    ExchangeReport report;
    report.skipped = true;
    StepView view = step_view({}, report, {});
    view.step_seconds = lap_seconds(mark);
    after_step(view);
  }
  finish();
  return steps_done();
}

}  // namespace terngrad
