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

std::string memory_group(const std::string& memory, int worker) {
  return fmt::format("memory/{}/worker-{:04}", memory, worker);
}

std::vector<CheckpointGroup> memory_groups(const TrainingView& training, std::span<const Buffer<float>> kept) {
  std::vector<CheckpointGroup> groups;
  for (const Buffer<float>& state : kept) {
    const auto worker = static_cast<int>(groups.size());
    groups.push_back({.name = memory_group(training.memories.name, worker),
                      .values = state.span(),
                      .layout = training.memories.layout});
  }
  return groups;
}

std::vector<CheckpointGroup> shared_groups(const TrainingView& training) {
  if (training.shared.layout == nullptr) return {};
  return {{.name = kSharedGroup, .values = training.shared.values, .layout = training.shared.layout}};
}

void restore_shared(const Checkpoint& checkpoint, Trainer& trainer) {
  const TrainingView::Shared shared = trainer.shared();
  if (shared.layout != nullptr) checkpoint.read_group(kSharedGroup, *shared.layout, shared.values);
}

void restore_kept(const Checkpoint& checkpoint, Trainer& trainer) {
  const TrainingView::Memories kept = trainer.memories();
  // Asynchronous workers in several processes save no memory.
  if (!checkpoint.has_group("memory")) {
    if (trainer.keeps_what_is_saved() && !kept.of_workers.empty()) {
      checkpoint.check_matches(*kept.layout, memory_group(kept.name, trainer.first_local_sender()));
    }
    return;
  }
  int worker = trainer.first_local_sender();
  for (const std::span<float> state : kept.of_workers) {
    checkpoint.read_group(memory_group(kept.name, worker++), *kept.layout, state);
  }
}

Buffer<float> load_evaluation_state(const Checkpoint& checkpoint, const Net& net, bool averaged) {
  Buffer<float> state(net.state_layout().flat_elements());
  if (has_state(net)) {
    checkpoint.read_group(averaged ? kEmaStateGroup : worker_state_group(0), net.state_layout(), state.span());
  }
  return state;
}

}  // namespace terngrad
