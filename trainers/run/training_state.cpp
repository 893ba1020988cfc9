#include "trainers/run/training_state.h"

#include <algorithm>

#include "kernels/runtime/errors.h"
#include "trainers/hooks/interval.h"
#include "trainers/hooks/net_state.h"
#include "trainers/loop/trainer.h"

namespace terngrad {

std::optional<Checkpoint> load_newest(const std::filesystem::path& directory) {
  const std::optional<CheckpointFile> latest = latest_checkpoint(directory);
  if (!latest) return std::nullopt;
  return load_checkpoint(latest->path);
}

void restore(const Checkpoint& checkpoint, const RunIdentity& expected, std::uint64_t total_steps, Trainer& trainer) {
  checkpoint.check_same_run(expected);
  const std::uint64_t step = checkpoint.state().step;
  if (step > total_steps) {
    TERNGRAD_THROW(UsageError, "--max_steps ", total_steps, ": the run of ", checkpoint.source(), " has done ", step,
                   " steps; accepted: ", step, " or more");
  }
  const Layout& layout = trainer.net().layout();
  checkpoint.read_group("parameters", layout, trainer.parameters());
  checkpoint.read_group("ema", layout, trainer.ema().shadow());
  for (const Optimizer::Slot& slot : trainer.slots()) {
    checkpoint.read_group("slots/" + slot.name, layout, slot.values);
  }
  trainer.optimizer().restore_state(checkpoint.state().extra_metadata);
  restore_states(checkpoint, trainer);
  restore_kept(checkpoint, trainer);
  restore_shared(checkpoint, trainer);
  trainer.restore_extra(checkpoint);
  // Detect damage here, before any rank has started and the run's folder has changed.
  static_cast<void>(interval_of(checkpoint.state().extra_metadata));
  trainer.restore_hooks(checkpoint.state().extra_metadata);
  trainer.set_steps_done(step);
}

void begin_from(const Checkpoint& checkpoint, WarmStart what, Trainer& trainer) {
  warm_start(checkpoint, trainer.net().layout(), what, trainer.parameters());
  std::ranges::copy(trainer.parameters(), trainer.ema().shadow().begin());
  const Layout& layout = trainer.net().state_layout();
  if (layout.num_segments() == 0) return;
  checkpoint.read_group(worker_state_group(0), layout, trainer.state_ema().shadow());
  for (int worker = 0; worker < trainer.num_local_workers(); ++worker) {
    std::ranges::copy(trainer.state_ema().shadow(), trainer.state(worker).begin());
  }
}

}  // namespace terngrad
