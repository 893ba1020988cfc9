// Hook: an observer of a training run.
#pragma once

#include <cstdint>
#include <functional>
#include <map>
#include <memory>
#include <span>
#include <string>
#include <vector>

#include "compress/comm/communicator.h"
#include "compress/plan/telemetry.h"
#include "compress/route/exchange_report.h"
#include "nets/net.h"
#include "trainers/loop/push_counts.h"
#include "trainers/optim/optimizer.h"
#include "trainers/optim/transform_counts.h"

namespace terngrad {

class SharedState;
class TrainingControl;
class WorkerMemory;

/// Services of a run for its hooks.
struct RunServices {
  /// Connects the run's ranks, for hooks that run on every rank.
  Communicator* communicator = nullptr;
  /// Sends a heartbeat to ranks that wait for this one (Communicator::send_heartbeat); may be empty.
  std::function<void()> send_heartbeat = {};
  /// Collective: gathers TrainingView::slots on rank 0. Empty unless other ranks hold them between steps.
  std::function<void()> gather_slots = {};
  /// Number of copies of parameters, average and slots in this process: one, or one per GPU. Views show the first;
  /// show_replica switches them to another. The hook must switch back to 0.
  int num_replicas = 1;
  std::function<void(int replica)> show_replica = {};
  /// Checkpoint entries of all hooks of this rank (Hook::save_state).
  std::function<std::map<std::string, std::string>()> hook_state = {};
};

/// The state of a run as hooks see it. Views, valid during the call.
struct TrainingView {
  Net& net;  // for evaluation; parameters are passed to it
  std::span<const float> parameters;
  std::span<const float> ema;
  std::vector<Optimizer::Slot> slots;
  /// Result of Optimizer::state.
  std::map<std::string, std::string> optimizer_state = {};
  std::uint64_t steps_done = 0;  // updates applied or skipped; also the number of the next step
  std::uint64_t total_steps = 0;
  /// Steps that have run. On a GPU it may exceed steps_done: the hooks of the last steps are still to be called. A run
  /// that is asked to stop ends after these steps.
  std::uint64_t steps_computed = 0;
  /// Number of steps that run after a hook asks to stop: with several ranks 1, in which they agree on stopping.
  std::uint64_t stop_delay = 0;
  /// True if a hook of some rank asked to stop and the ranks agreed: this step is the last.
  bool stops_now = false;
  int num_workers = 1;          // total of all ranks
  int num_local_workers = 1;    // workers of this process
  int workers_per_group = 1;    // above 1, groups of them exchange as one worker each
  std::int64_t batch_size = 0;  // joint batch of all workers
  /// State of the net (Net::state_layout), one buffer per local worker, and its average, which belongs to `ema`.
  /// Buffers are empty if the net has no state.
  std::vector<std::span<const float>> states = {};
  std::span<const float> ema_state = {};
  /// Checkpoint content that only some trainers have: metadata entries, and buffers in the parameters' layout.
  struct ExtraTensor {
    std::string name;
    std::span<const float> values;
  };
  std::map<std::string, std::string> extra_metadata = {};
  std::vector<ExtraTensor> extra_tensors = {};
  /// State of the local workers' memories (compress/memory), one buffer per worker or group that exchanges here. The
  /// layout has the tensors with state; null: no memory.
  struct Memories {
    std::string name = {};  // name of the memory
    const Layout* layout = nullptr;
    std::vector<std::span<float>> of_workers = {};
  };
  Memories memories = {};
  /// State of the exchange that is equal on all ranks (compress/memory/shared_state.h), with its layout; null: none.
  struct Shared {
    const Layout* layout = nullptr;
    std::span<float> values = {};
  };
  Shared shared = {};
  /// One flag per tensor, or empty: the last step has not trained or exchanged it, so StepView has no message of it.
  std::vector<bool> frozen = {};
  bool is_frozen(int segment) const { return !frozen.empty() && frozen[static_cast<std::size_t>(segment)]; }
  RunServices services = {};
};

/// Number of elements of the tensors that the last step has not trained.
std::int64_t num_frozen_elements(const TrainingView& training);

/// Number of workers, or groups of workers, that exchange gradients.
inline int num_senders(const TrainingView& training) { return training.num_workers / training.workers_per_group; }

/// Results of the step that just ended.
struct StepView {
  std::uint64_t step = 0;  // 0-based
  double loss = 0;         // mean over workers of WorkerLoss::entropy_loss
  double accuracy = 0;     // fraction of the batch classified correctly, before the update
  double learning_rate = 0;
  double step_seconds = 0;  // duration of the whole step
  // True if the times below and in `report` are measured. On GPUs, where a step is one launch, only data_seconds is.
  bool parts_are_timed = true;
  double compute_seconds = 0;             // forward and backward
  double update_seconds = 0;              // optimizer and average
  double data_seconds = 0;                // waiting for examples
  double hidden_seconds = 0;              // exchange time hidden behind the backward pass
  double exposed_seconds = 0;             // exchange time that the step waited for
  TransformCounts transform_counts = {};  // summed over all workers
  const ExchangeReport& report;           // bytes of all workers, times of this process
  /// Telemetry of tensor `segment` of local worker 0. Costs a pass over the tensor.
  std::function<TensorTelemetry(int segment)> telemetry;
  /// Gradient of tensor `segment` of the same worker, or with groups the mean of its group: after transforms, before
  /// the memory.
  std::function<std::span<const float>(int segment)> gradient = {};
  /// The same for any local worker; valid until the next call. Empty on an asynchronous server, whose workers push
  /// encoded gradients from other processes.
  std::function<std::span<const float>(int local_worker, int segment)> worker_gradient = {};
  /// Decodes what local worker 0 sent of the tensor and returns the scaler; see CompressedAllReduce::decode_local. Not
  /// to be called after a skipped step.
  std::function<float(int segment, std::span<float> out)> decode_sent = {};
  /// Tensor `segment` of the mean gradient, as it came from the downlink and was applied, including
  /// TrainerOptions::mean_factor. Not to be called after a skipped step. Empty if this process has no mean: workers
  /// pull parameters, or pushes are applied one by one.
  std::function<std::span<const float>(int segment)> mean = {};
  /// The local workers' examples, one worker after the other, and their logits before the update. Empty where GPUs
  /// exchange, on servers and in asynchronous training; logits also where GPUs compute for an exchange by the CPU.
  std::span<const float> images = {};         // [examples, height, width, channels], as the net takes them
  std::span<const std::int32_t> labels = {};  // [examples]
  std::span<const float> logits = {};         // [examples, num_classes]
  /// Asynchronous training: the pushes of the step; else null.
  const PushCounts* pushes = nullptr;
};

/// A hook's decision after a step.
enum class HookVerdict { kContinue, kStop };

/// Implements StepView::telemetry: compares the encoded gradient with the decoded message.
/// @param encoded  returns the memory's compensated gradient; if empty or its result is empty, `gradient` is used
std::function<TensorTelemetry(int segment)> telemetry_of(
    std::function<std::span<const float>(int segment)> gradient,
    std::function<std::span<const float>(int segment)> encoded,
    std::function<float(int segment, std::span<float> out)> decode_sent);

/// View of a memory for TrainingView; no layout if `memory` is nullptr.
TrainingView::Memories memories_of(WorkerMemory* memory);
/// View of an exchange's shared state for TrainingView; no layout if there is none. @param values  the state in host
/// memory; empty if it is there
TrainingView::Shared shared_state_of(SharedState& shared, std::span<float> values = {});

/// Result of Hook::next_sync_step if no step needs one.
inline constexpr std::uint64_t kNoSyncStep = ~std::uint64_t{0};

/// The smallest multiple of n above `steps_done`; kNoSyncStep for n = 0.
inline std::uint64_t next_multiple(std::uint64_t n, std::uint64_t steps_done) {
  return n == 0 ? kNoSyncStep : (steps_done / n + 1) * n;
}

/// Callbacks around training. Hooks observe and may ask to stop; all but before_step change nothing, so that a run has
/// the same bits with any hooks that do without it. All defaults do nothing.
class Hook {
 public:
  virtual ~Hook() = default;
  virtual void before_train(const TrainingView&) {}
  virtual HookVerdict after_step(const TrainingView&, const StepView&) { return HookVerdict::kContinue; }
  virtual void after_train(const TrainingView&) {}
  /// The next number of steps, above `steps_done`, after which after_step reads tensors: parameters, slots, states,
  /// gradients or messages. A GPU runs up to that step without waiting, then after_step is called for each of the
  /// steps. For steps before it, the tensors in the views are unspecified.
  virtual std::uint64_t next_sync_step(std::uint64_t steps_done) const { return steps_done + 1; }
  /// Changes the run before step `control.steps_done()`. A hook that does runs on every rank, and changes the same on
  /// each.
  virtual void before_step(TrainingControl& /*control*/) {}
  /// The next step, at least `steps_done`, before which before_step is called; kNoSyncStep: none. GPUs wait for it.
  virtual std::uint64_t next_change_step(std::uint64_t /*steps_done*/) const { return kNoSyncStep; }
  /// Adds the hook's state to a checkpoint's entries, under names of its own, so that a resumed run reports the same as
  /// an uninterrupted one. Called for the hooks of rank 0 when a checkpoint is saved; hooks added before the saving
  /// hook have seen the step by then.
  virtual void save_state(std::map<std::string, std::string>& /*entries*/) const {}
  /// Restores what rank 0 saved, on every rank on which the hook runs; called before before_train.
  /// @param entries  all entries of the checkpoint
  /// @throws DataError if the hook's entries are damaged
  virtual void restore_state(const std::map<std::string, std::string>& /*entries*/) {}
  /// True if the hook runs on every rank; else only on the chief (rank 0).
  virtual bool on_every_rank() const { return false; }
};

/// The ranks on which a hook runs.
enum class HookRanks { kChief, kEvery };

/// Signature of Hook::after_step.
using StepFunction = std::function<HookVerdict(const TrainingView&, const StepView&)>;
/// Calls `function` after steps n, 2n, 3n, ... (counted from 1). @throws InvalidArgument if n < 1
std::unique_ptr<Hook> every_steps(std::uint64_t n, StepFunction function, HookRanks ranks = HookRanks::kChief);
/// Calls `function` once, after `n` steps.
std::unique_ptr<Hook> at_step(std::uint64_t n, StepFunction function, HookRanks ranks = HookRanks::kChief);
/// Changes the run once, before step `n` (counted from 0), on every rank; not in a run that is resumed after it.
std::unique_ptr<Hook> before_step(std::uint64_t n, std::function<void(TrainingControl&)> change);

}  // namespace terngrad
