// NoopTrainer: hooks, steps and nothing else.
#pragma once

#include <memory>

#include "trainers/loop/trainer.h"

namespace terngrad {

/// Calls the hooks of total_steps steps of one process without examples, gradients or updates: to run hooks alone, for
/// example ones that evaluate, or to measure what they cost. Hooks may change parameters (Hook::before_step) and stop
/// the run; a step's loss, accuracy and bytes are 0, and its tensors are missing. Averages stay as they are.
class NoopTrainer final : public Trainer {
 public:
  /// @param net        provides the parameters, and evaluates
  /// @param optimizer  holds slots to save and restore checkpoints
  NoopTrainer(std::unique_ptr<Net> net, std::unique_ptr<Optimizer> optimizer, const Schedule& schedule,
              const TrainerOptions& options);
  std::uint64_t run() override;
  std::vector<Optimizer::Slot> slots() override { return optimizer_->slots(); }

 private:
  std::unique_ptr<Net> net_;
  std::unique_ptr<Optimizer> optimizer_;
};

}  // namespace terngrad
