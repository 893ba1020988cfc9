// Trainer: base class of training loops on any device.
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
class TrainedTensors;
struct StepSummary;

/// Synchronous training of N workers, of which this process holds a contiguous range (empty on a server). In each step,
/// every worker computes the gradient of its slice of the joint batch, transforms are applied, the gradients are
/// combined, and the copy of the parameters that the process's workers share is updated. Final parameters depend only
/// on options, seed and kind of device, not on threads or the distribution of workers over devices and processes
/// (contract B3).
///
/// This class holds a run's state in host memory, its hooks and its step counters; HostTrainer and DeviceTrainer
/// compute the steps.
class Trainer {
 public:
  virtual ~Trainer();
  Trainer(const Trainer&) = delete;
  Trainer& operator=(const Trainer&) = delete;

  /// Hooks are called in the order in which they were added.
  void add_hook(std::unique_ptr<Hook> hook);

  /// Trains up to total_steps, or until a hook asks to stop. Several ranks all stop one step after the step in which a
  /// hook of any rank asked. @returns total number of steps done
  /// @throws exceptions of its components. Parameters are then those of the last complete step; the net's state may
  /// have seen the batch that failed. If a hook throws on a GPU, more steps may have run than hooks were called for,
  /// and the state is that after these steps
  virtual std::uint64_t run() = 0;

  // State in host memory, to be restored before run() and to be read after it.
  std::span<float> parameters() { return parameters_.span(); }
  Ema& ema() { return ema_; }
  /// The net's state of a local worker: its moving statistics. A skipped step does not change it.
  std::span<float> state(int local_worker) { return states_.at(static_cast<std::size_t>(local_worker)).span(); }
  /// The moving average of local worker 0's state, with the decay of `ema`. Evaluation of averaged parameters uses it,
  /// as in the TernGrad authors' program.
  Ema& state_ema() { return state_ema_; }
  /// The optimizer's slots, and other buffers that checkpoints store as slots.
  virtual std::vector<Optimizer::Slot> slots() = 0;
  /// State of the local workers' memories, in host memory; its layout is null if there is none.
  virtual TrainingView::Memories memories() { return {}; }
  /// State that is equal on all ranks, in host memory, to be restored; see TrainingView::shared.
  virtual TrainingView::Shared shared() { return {}; }
  /// True if every checkpoint of the run contains the memories; else they start anew if it has none.
  virtual bool keeps_what_is_saved() const { return true; }
  int num_local_workers() const { return workers_.num_local_workers; }
  /// Global number of local worker 0.
  int first_local_worker() const { return workers_.first_local_worker; }
  /// Number, among those who exchange, of the first worker or group for which this process does.
  int first_local_sender() const;
  /// The optimizer, for name(), state() and restore_state(); its slots may be in device memory.
  Optimizer& optimizer() { return optimizer_; }
  Net& net() { return net_; }
  /// Restores what add_to_view added to a checkpoint. @throws DataError if it is missing or invalid
  virtual void restore_extra(const Checkpoint& /*checkpoint*/) {}
  void set_steps_done(std::uint64_t steps) { steps_done_ = steps_computed_ = steps; }
  /// Sets the entries that run() passes to Hook::restore_state. @param entries  metadata of the run's checkpoint
  void restore_hooks(std::map<std::string, std::string> entries) { hook_state_ = std::move(entries); }

 protected:
  /// Access to a step's tensors for hooks. Returned spans are valid until the next call of the function.
  struct StepTensors {
    std::function<std::span<const float>(int local_worker, int segment)> gradient = {};
    std::function<std::span<const float>(int segment)> group_mean = {};        // group of local worker 0; may be empty
    std::function<std::span<const float>(int segment)> encoded = {};           // local worker 0
    std::function<float(int segment, std::span<float> out)> decode_sent = {};  // local worker 0
    std::function<std::span<const float>(int segment)> mean = {};
  };
  /// Initializes parameters from the seed. @param net, optimizer  must outlive the trainer
  Trainer(Net& net, Optimizer& optimizer, const Schedule& schedule, const WorkerGroup& workers,
          const TrainerOptions& options);

  /// See RunServices.
  virtual void send_heartbeat() { workers_.communicator->send_heartbeat(); }
  /// The function for RunServices::gather_slots.
  virtual std::function<void()> slot_gatherer() { return {}; }
  TrainingView view();
  /// Adds state of the derived trainer to the view: extra_metadata and extra_tensors.
  virtual void add_to_view(TrainingView& /*view*/) {}
  /// The view of the step whose hooks are called next. The caller fills in the times.
  /// @param summary  summary over all ranks
  /// @param report   report of this process's exchange, with the bytes of all ranks; must outlive the view
  /// @param tensors  functions are empty if this process does not have the tensors
  StepView step_view(const StepSummary& summary, const ExchangeReport& report, const StepTensors& tensors) const;
  double learning_rate(std::uint64_t step) const { return schedule_.rate(static_cast<std::int64_t>(step)); }
  /// True if `rebroadcast` is due after `steps` steps.
  bool rebroadcasts_after(std::uint64_t steps) const {
    return options_.rebroadcast_steps != 0 && steps % options_.rebroadcast_steps == 0;
  }
  /// Broadcasts parameters, average and slots of rank 0 to every rank.
  void rebroadcast();
  bool is_done() const { return steps_done_ >= options_.total_steps || stop_; }
  void begin();                           // restores the hooks' state, then calls before_train
  void finish();                          // calls after_train
  void after_step(const StepView& step);  // counts the step and calls the hooks
  /// True if a hook of this rank has asked to stop.
  bool stop_is_asked() const { return stop_is_asked_; }
  /// Ends the run after the current step, when several ranks have agreed on it.
  void stop() { stop_ = true; }
  /// Ends the run after the step whose hooks are called next; they see TrainingView::stops_now.
  void stop_after_step() { stop_ = stop_is_asked_ = true; }
  /// Sets the number of steps that have run, including those whose hooks are still to be called.
  void set_steps_computed(std::uint64_t steps) { steps_computed_ = steps; }
  /// The minimum of Hook::next_sync_step over all hooks that run on this rank.
  std::uint64_t next_sync_step() const;
  /// The next step, at least `steps_done`, before which a hook changes the run; kNoSyncStep: none.
  std::uint64_t next_change_step(std::uint64_t steps_done) const;
  /// Lets hooks change the run before the next step. @throws InvalidArgument for a hook that does not run on every
  /// rank, or if all tensors are frozen then
  void change();
  /// The tensors that the next step trains.
  const TrainedTensors& trained() const { return *trained_; }

  const TrainerOptions& options() const { return options_; }
  const WorkerGroup& workers() const { return workers_; }
  std::uint64_t steps_done() const { return steps_done_; }
  std::vector<Buffer<float>>& states() { return states_; }

 private:
  /// True if the hook runs on this rank.
  bool is_called(const Hook& hook) const;
  /// Merged Hook::save_state of all hooks that run on this rank.
  std::map<std::string, std::string> hook_state() const;
  /// See RunServices.
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
  std::unique_ptr<TrainedTensors> trained_;
  std::vector<std::unique_ptr<Hook>> hooks_;
  std::optional<std::map<std::string, std::string>> hook_state_;  // to be restored by begin()
  std::uint64_t steps_done_ = 0;
  std::uint64_t steps_computed_ = 0;
  bool stop_is_asked_ = false;
  bool stop_ = false;
};

}  // namespace terngrad
