// Trainer: a synchronous training run, on whatever devices its steps are computed.
#pragma once

#include <cstdint>
#include <functional>
#include <map>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <utility>
#include <vector>

#include "compress/comm/communicator.h"
#include "kernels/runtime/buffer.h"
#include "nets/net.h"
#include "trainers/loop/hook.h"
#include "trainers/loop/trainer_options.h"
#include "trainers/optim/ema.h"
#include "trainers/optim/optimizer.h"
#include "trainers/optim/schedule.h"

namespace terngrad {

class Checkpoint;
struct StepSummary;

/// Synchronous training of N workers of which this process holds a contiguous range, empty if it is a server. Every
/// step: each worker computes the gradient of its slice of the joint batch, transforms are applied, the gradients are
/// combined, and the one copy of the parameters that the process's workers share is updated. Final parameters depend on
/// options, seed and the kind of device alone: not on threads, nor on how workers are spread over devices and processes
/// (contract B3).
///
/// This class holds what a run is on every device: its state in host memory, its hooks and its place in the run.
/// HostTrainer and DeviceTrainer compute the steps.
class Trainer {
 public:
  virtual ~Trainer();
  Trainer(const Trainer&) = delete;
  Trainer& operator=(const Trainer&) = delete;

  /// Hooks are called in the order in which they were added.
  void add_hook(std::unique_ptr<Hook> hook);

  /// Trains up to total_steps, or until a hook asks to stop; of several ranks, all stop after the step after the one
  /// whose hooks asked on any of them. @returns steps done in all
  /// @throws whatever a part throws; the parameters are then those of the last whole step; the net's state may have
  /// seen the batch that failed. On a GPU more steps may have run than hooks were called for if a hook throws: the
  /// state is then that after them
  virtual std::uint64_t run() = 0;

  // State, for restoring from a checkpoint before run(), and as run() left it. Host memory.
  std::span<float> parameters() { return parameters_.span(); }
  Ema& ema() { return ema_; }
  /// The net's state of a local worker: its moving statistics. A skipped step leaves them as they were.
  std::span<float> state(int local_worker) { return states_.at(static_cast<std::size_t>(local_worker)).span(); }
  /// The moving average of the state of local worker 0, with the decay of `ema`: what evaluation of averaged parameters
  /// uses, as the original does.
  Ema& state_ema() { return state_ema_; }
  /// The optimizer's slots, and what else of the parameters' state a checkpoint keeps.
  virtual std::vector<Optimizer::Slot> slots() = 0;
  /// What local workers keep from step to step besides the net's state, in host memory; its layout is null for nothing.
  virtual TrainingView::Memories memories() { return {}; }
  /// TrainingView::factors, to restore.
  virtual TrainingView::Factors factors() { return {}; }
  /// Whether a checkpoint of the run always has it; else it begins anew where a checkpoint has none.
  virtual bool keeps_what_is_saved() const { return true; }
  int num_local_workers() const { return workers_.num_local_workers; }
  /// Global number of local worker 0.
  int first_local_worker() const { return workers_.first_local_worker; }
  /// For its name, state() and restore_state(); its slots may be in a device's memory.
  Optimizer& optimizer() { return optimizer_; }
  Net& net() { return net_; }
  /// Puts what add_to_view added to a run's checkpoints back. @throws DataError if it is missing or wrong
  virtual void restore_extra(const Checkpoint& /*checkpoint*/) {}
  void set_steps_done(std::uint64_t steps) { steps_done_ = steps_computed_ = steps; }
  /// What Hook::restore_state is called with when run() begins. @param entries  of the run's checkpoint
  void restore_hooks(std::map<std::string, std::string> entries) { hook_state_ = std::move(entries); }

 protected:
  /// Where the tensors of a step are, for hooks that ask: what each function gives is valid until its next call.
  struct StepTensors {
    std::function<std::span<const float>(int local_worker, int segment)> gradient = {};
    std::function<std::span<const float>(int segment)> encoded = {};           // of local worker 0
    std::function<float(int segment, std::span<float> out)> decode_sent = {};  // likewise
    std::function<std::span<const float>(int segment)> mean = {};
  };
  /// Parameters are initialized from the seed. @param net, optimizer  outlive the trainer
  Trainer(Net& net, Optimizer& optimizer, const Schedule& schedule, const WorkerGroup& workers,
          const TrainerOptions& options);

  /// RunServices::gather_slots.
  virtual std::function<void()> slot_gatherer() { return {}; }
  TrainingView view();
  /// Adds what a run has besides parameters, averages, slots and states.
  virtual void add_to_view(TrainingView& /*view*/) {}
  /// The step that has just run, whose hooks are called next, as all ranks sum it up; its times are left to the
  /// trainer.
  /// @param report   of this process's exchange, with the bytes of all; outlives the view
  /// @param tensors  empty functions: this process does not have them
  StepView step_view(const StepSummary& summary, const ExchangeReport& report, const StepTensors& tensors) const;
  double learning_rate(std::uint64_t step) const { return schedule_.rate(static_cast<std::int64_t>(step)); }
  /// Whether it is time for `rebroadcast` when that many steps are done.
  bool rebroadcasts_after(std::uint64_t steps) const {
    return options_.rebroadcast_steps != 0 && steps % options_.rebroadcast_steps == 0;
  }
  /// Gives every rank the parameters, average and slots of rank 0.
  void rebroadcast();
  bool is_done() const { return steps_done_ >= options_.total_steps || stop_; }
  void begin();                           // gives hooks their saved state, then before_train
  void finish();                          // after_train
  void after_step(const StepView& step);  // counts the step and calls the hooks
  /// Whether a hook of this rank has asked to stop.
  bool stop_is_asked() const { return stop_is_asked_; }
  /// Ends the run after the step that is under way: what several ranks have agreed on.
  void stop() { stop_ = true; }
  /// Ends the run after the step whose hooks are called next, and lets them know.
  void stop_after_step() { stop_ = stop_is_asked_ = true; }
  /// Says that steps have run whose hooks are yet to be called.
  void set_steps_computed(std::uint64_t steps) { steps_computed_ = steps; }
  /// The smallest number of steps above those done after which a hook looks.
  std::uint64_t next_sync_step() const;

  const TrainerOptions& options() const { return options_; }
  const WorkerGroup& workers() const { return workers_; }
  std::uint64_t steps_done() const { return steps_done_; }
  std::vector<Buffer<float>>& states() { return states_; }

 private:
  bool is_called(const Hook& hook) const;
  /// Of all hooks that are called.
  std::map<std::string, std::string> hook_state() const;
  /// For RunServices.
  virtual int num_replicas() const { return 1; }
  virtual void show_replica(int) {}

  Net& net_;
  Optimizer& optimizer_;
  Schedule schedule_;
  WorkerGroup workers_;
  TrainerOptions options_;
  Buffer<float> parameters_;
  Ema ema_;
  std::vector<Buffer<float>> states_;  // one per local worker
  Ema state_ema_;
  std::vector<std::unique_ptr<Hook>> hooks_;
  std::optional<std::map<std::string, std::string>> hook_state_;  // to restore
  std::uint64_t steps_done_ = 0;
  std::uint64_t steps_computed_ = 0;
  bool stop_is_asked_ = false;
  bool stop_ = false;
};

}  // namespace terngrad
