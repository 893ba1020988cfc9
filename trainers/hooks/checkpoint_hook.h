// The hook that saves checkpoints.
#pragma once

#include <cstdint>
#include <functional>
#include <optional>
#include <span>
#include <vector>

#include "kernels/runtime/buffer.h"
#include "trainers/checkpoint/checkpoint.h"
#include "trainers/checkpoint/on_save_error.h"
#include "trainers/hooks/state_gather.h"
#include "trainers/io/folder.h"
#include "trainers/launch/progress.h"
#include "trainers/loop/hook.h"

namespace terngrad {

/// Options of CheckpointHook.
struct CheckpointHookOptions {
  Folder folder;
  std::uint64_t save_steps = 1;
  int keep_last = 0;  // number of newest checkpoints to keep; 0: all
  OnSaveError on_error = OnSaveError::kStop;
  bool save_at_start = false;  // also before the first step, for runs whose initial state cannot be computed again
};

/// Saves a checkpoint every `save_steps` and at the end, after earlier reports have been fsynced. Earlier checkpoints
/// stay intact until the new one is durable. With several ranks it runs on the chief, and the others send their states
/// with make_state_sender_hook. Add it after hooks whose state checkpoints keep (Hook::save_state).
class CheckpointHook final : public Hook {
 public:
  /// @param state         metadata; its step is set at each save
  /// @param sync_reports  called before each save: fsyncs everything that the hooks before this one wrote, or throws
  ///                      DataError
  CheckpointHook(CheckpointHookOptions options, CheckpointState state, std::function<void()> sync_reports,
                 ProgressDisplay& display);
  void before_train(const TrainingView& training) override;
  HookVerdict after_step(const TrainingView& training, const StepView& step) override;
  void after_train(const TrainingView& training) override;
  std::uint64_t next_sync_step(std::uint64_t steps_done) const override;

 private:
  StateGatherTimes gather_times() const;
  /// Gathers every rank's states once per step: a repeated save after a failure does not communicate.
  void gather(const TrainingView& training);
  void save(const TrainingView& training);
  CheckpointHookOptions options_;
  CheckpointState state_;
  std::function<void()> sync_reports_;
  ProgressDisplay& display_;
  std::optional<std::uint64_t> saved_;
  std::vector<Buffer<float>> states_, kept_;
  std::optional<std::uint64_t> gathered_;
};

}  // namespace terngrad
