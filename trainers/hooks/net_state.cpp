#include "trainers/hooks/net_state.h"

#include <fmt/format.h>

#include "trainers/loop/hook.h"
#include "trainers/loop/trainer.h"

namespace terngrad {
namespace {

bool has_state(const Net& net) { return net.state_layout().num_segments() > 0; }

}  // namespace

std::string worker_state_group(int worker) { return fmt::format("state/worker-{:04}", worker); }

std::vector<CheckpointGroup> state_groups(const TrainingView& training, std::span<const Buffer<float>> states) {
  std::vector<CheckpointGroup> groups;
  if (!has_state(training.net)) return groups;
  const Layout* layout = &training.net.state_layout();
  int worker = 0;
  for (const Buffer<float>& state : states) {
    groups.push_back({.name = worker_state_group(worker++), .values = state.span(), .layout = layout});
  }
  groups.push_back({.name = kEmaStateGroup, .values = training.ema_state, .layout = layout});
  return groups;
}

void restore_states(const Checkpoint& checkpoint, Trainer& trainer) {
  if (!has_state(trainer.net())) return;
  const Layout& layout = trainer.net().state_layout();
  for (int worker = 0; worker < trainer.num_local_workers(); ++worker) {
    checkpoint.read_group(worker_state_group(trainer.first_local_worker() + worker), layout, trainer.state(worker));
  }
  checkpoint.read_group(kEmaStateGroup, layout, trainer.state_ema().shadow());
}

Buffer<float> load_evaluation_state(const Checkpoint& checkpoint, const Net& net, bool averaged) {
  Buffer<float> state(net.state_layout().flat_elements());
  if (has_state(net)) {
    checkpoint.read_group(averaged ? kEmaStateGroup : worker_state_group(0), net.state_layout(), state.span());
  }
  return state;
}

}  // namespace terngrad
