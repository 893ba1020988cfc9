#include "trainers/hooks/checkpoint_hook.h"

#include <fmt/format.h>

#include <string>
#include <utility>

#include "kernels/runtime/errors.h"
#include "trainers/hooks/net_state.h"

namespace terngrad {

CheckpointHook::CheckpointHook(CheckpointHookOptions options, CheckpointState state, std::function<void()> sync_reports,
                               ProgressDisplay& display)
    : options_(std::move(options)),
      state_(std::move(state)),
      sync_reports_(std::move(sync_reports)),
      display_(display) {}

StateGatherTimes CheckpointHook::gather_times() const {
  return {.save_steps = options_.save_steps, .save_at_start = options_.save_at_start};
}

void CheckpointHook::gather(const TrainingView& training) {
  if (gathered_ == training.steps_done) return;
  states_ = gather_states(training);
  kept_ = gather_memories(training);
  gathered_ = training.steps_done;
}

void CheckpointHook::before_train(const TrainingView& training) {
  if (gather_times().at_start(training.steps_done)) save(training);
}

HookVerdict CheckpointHook::after_step(const TrainingView& training, const StepView&) {
  if (!gather_times().after_step(training.steps_done)) return HookVerdict::kContinue;
  if (options_.on_error == OnSaveError::kStop) {
    save(training);
    return HookVerdict::kContinue;
  }
  try {
    save(training);
  } catch (const DataError& error) {
    const auto before = latest_checkpoint(options_.folder);
    display_.message("step " + std::to_string(training.steps_done) + ": " + error.what() + "; training continues, " +
                     (before ? before->path.string() + " is intact" : "no checkpoint is saved yet"));
  }
  return HookVerdict::kContinue;
}

std::uint64_t CheckpointHook::next_sync_step(std::uint64_t steps_done) const {
  return next_multiple(options_.save_steps, steps_done);
}

void CheckpointHook::after_train(const TrainingView& training) {
  if (saved_ != training.steps_done) save(training);
}

void CheckpointHook::save(const TrainingView& training) {
  // First, because the other ranks send their states even if the save fails.
  gather(training);
  sync_reports_();
  CheckpointView view;
  view.state = state_;
  view.state.step = training.steps_done;
  for (const auto& [name, value] : training.optimizer_state) view.state.extra_metadata[name] = value;
  if (training.services.hook_state) view.state.extra_metadata.merge(training.services.hook_state());
  view.layout = &training.net.layout();
  for (const auto& [name, value] : training.extra_metadata) view.state.extra_metadata[name] = value;
  for (const auto& [name, values] : training.extra_tensors) view.groups.push_back({name, values});
  view.groups.push_back({"parameters", training.parameters});
  view.groups.push_back({"ema", training.ema});
  for (const Optimizer::Slot& slot : training.slots) view.groups.push_back({"slots/" + slot.name, slot.values});
  std::ranges::move(state_groups(training, states_), std::back_inserter(view.groups));
  std::ranges::move(memory_groups(training, kept_), std::back_inserter(view.groups));
  std::ranges::move(shared_groups(training), std::back_inserter(view.groups));
  save_checkpoint(options_.folder, view, options_.keep_last);
  // As large as the gradients of all workers, so free them until the next save.
  kept_.clear();
  gathered_.reset();
  saved_ = training.steps_done;
}

}  // namespace terngrad
