// Hook: code that watches a training run.
#pragma once

#include <cstdint>
#include <functional>
#include <map>
#include <memory>
#include <span>
#include <string>
#include <vector>

#include "compress/comm/communicator.h"
#include "compress/exchange/gradient_exchange.h"
#include "compress/plan/telemetry.h"
#include "nets/net.h"
#include "trainers/loop/push_counts.h"
#include "trainers/optim/optimizer.h"
#include "trainers/optim/transform_counts.h"

namespace terngrad {

class WorkerMemory;

/// What a run does for its hooks, beside showing its state.
struct RunServices {
  /// Between the run's ranks, for hooks that run on every one of them.
  Communicator* communicator = nullptr;
  /// Tells ranks that wait for this one that it is busy, as Communicator::send_heartbeat; may be empty.
  std::function<void()> send_heartbeat = {};
  /// Brings TrainingView::slots up to date on rank 0, where other ranks hold them between steps; a collective call.
  /// Empty if they always are.
  std::function<void()> gather_slots = {};
  /// How many copies of parameters, average and slots this process has: one, or one on each of its GPUs. The views are
  /// of the first; show_replica makes them those of another, for a hook that leaves them with the first (0).
  int num_replicas = 1;
  std::function<void(int replica)> show_replica = {};
  /// What this rank's hooks give for a checkpoint, together (Hook::save_state).
  std::function<std::map<std::string, std::string>()> hook_state = {};
};

/// A run as hooks see it. Views; valid during the call.
struct TrainingView {
  Net& net;  // for evaluation; parameters are passed to it
  std::span<const float> parameters;
  std::span<const float> ema;
  std::vector<Optimizer::Slot> slots;
  /// As Optimizer::state gives it.
  std::map<std::string, std::string> optimizer_state = {};
  std::uint64_t steps_done = 0;  // updates applied or skipped so far: the step that comes next
  std::uint64_t total_steps = 0;
  /// Steps that have run. On a GPU there may be more than steps_done, whose hooks are yet to be called; a run that is
  /// asked to stop ends after these.
  std::uint64_t steps_computed = 0;
  /// Steps that still run after the one whose hooks ask to stop: several ranks agree on it in the next step.
  std::uint64_t stop_delay = 0;
  /// The ranks have agreed, because a hook of one of them asked: this step is the last.
  bool stops_now = false;
  int num_workers = 1;          // of all ranks
  int num_local_workers = 1;    // of this process
  std::int64_t batch_size = 0;  // of all workers together
  /// State of the net (Net::state_layout), one buffer for each local worker, and the average that goes with `ema`.
  /// Buffers are empty if the net has none.
  std::vector<std::span<const float>> states = {};
  std::span<const float> ema_state = {};
  /// What else a checkpoint keeps: entries, and buffers in the layout of the parameters. For what a kind of trainer has
  /// that others do not.
  struct ExtraTensor {
    std::string name;
    std::span<const float> values;
  };
  std::map<std::string, std::string> extra_metadata = {};
  std::vector<ExtraTensor> extra_tensors = {};
  /// What local workers keep of their gradients from step to step (compress/memory), one buffer for each. The layout is
  /// that of the tensors that have state; null: they keep nothing.
  struct Memories {
    std::string name = {};  // of the memory
    const Layout* layout = nullptr;
    std::vector<std::span<float>> of_workers = {};
  };
  Memories memories = {};
  /// What all ranks keep alike of it (compress/memory/factor_state.h). The layout is that of the factors; null: they
  /// keep nothing.
  struct Factors {
    const Layout* layout = nullptr;
    std::span<float> values = {};
  };
  Factors factors = {};
  RunServices services = {};
};

/// What the step that just ended did.
struct StepView {
  std::uint64_t step = 0;  // 0-based
  double loss = 0;         // mean over workers of the mean cross-entropy of their slices
  double accuracy = 0;     // fraction of the batch classified right, before the update
  double learning_rate = 0;
  double step_seconds = 0;  // all of the step
  // Parts of it, and of `report`. On a GPU, where a step is one launch, all except data_seconds are not known: 0.
  bool parts_are_timed = true;
  double compute_seconds = 0;             // forward and backward
  double update_seconds = 0;              // optimizer and average
  double data_seconds = 0;                // waiting for examples
  double hidden_seconds = 0;              // of the exchange, while the backward pass continued
  double exposed_seconds = 0;             // of the exchange, which the step waited for
  TransformCounts transform_counts = {};  // over all workers
  const ExchangeReport& report;           // bytes are those of all workers; times are of this process
  /// Telemetry of tensor `segment` of worker 0 of this process. Costs a pass over the tensor.
  std::function<TensorTelemetry(int segment)> telemetry;
  /// Gradient of tensor `segment` of the same worker, transforms applied, before a memory had a part in it.
  std::function<std::span<const float>(int segment)> gradient = {};
  /// The same of any worker of this process, 0 being its first; valid until the next call. Empty where gradients of
  /// the workers are not here: they push them, encoded, from other processes.
  std::function<std::span<const float>(int local_worker, int segment)> worker_gradient = {};
  /// What that worker sent of it, decoded, and its scaler; as Strategy::decode_sent. Not after a skipped step.
  std::function<float(int segment, std::span<float> out)> decode_sent = {};
  /// Tensor `segment` of the mean gradient over all workers, as it came back from the downlink and was applied: with
  /// TrainerOptions::mean_factor in it. Not after a skipped step. Empty where this process has none: workers pull
  /// parameters, or pushes are applied one by one.
  std::function<std::span<const float>(int segment)> mean = {};
  /// Of asynchronous training: the pushes that the step is made of.
  const PushCounts* pushes = nullptr;
};

enum class HookVerdict { kContinue, kStop };

/// StepView::telemetry from the other two: compares what was encoded with what was sent.
/// @param encoded  what a memory made of the gradient; empty, or gives nothing for a tensor: the gradient itself
std::function<TensorTelemetry(int segment)> telemetry_of(
    std::function<std::span<const float>(int segment)> gradient,
    std::function<std::span<const float>(int segment)> encoded,
    std::function<float(int segment, std::span<float> out)> decode_sent);

/// A memory as TrainingView has it; nullptr: nothing is kept.
TrainingView::Memories memories_of(WorkerMemory* memory);
/// Factors as TrainingView has them; nothing if the layout has no tensors.
TrainingView::Factors factors_of(const Layout& layout, std::span<float> values);

/// No number of steps.
inline constexpr std::uint64_t kNoSyncStep = ~std::uint64_t{0};

/// The smallest multiple of n above `steps_done`; kNoSyncStep for n = 0.
inline std::uint64_t next_multiple(std::uint64_t n, std::uint64_t steps_done) {
  return n == 0 ? kNoSyncStep : (steps_done / n + 1) * n;
}

/// Called around training. Hooks observe and may ask to stop; they change nothing, so that a run with other hooks ends
/// with the same bits. The default of every call does nothing.
class Hook {
 public:
  virtual ~Hook() = default;
  virtual void before_train(const TrainingView&) {}
  virtual HookVerdict after_step(const TrainingView&, const StepView&) { return HookVerdict::kContinue; }
  virtual void after_train(const TrainingView&) {}
  /// The smallest number of steps above `steps_done` after which after_step reads more of the run than numbers: its
  /// parameters, slots, states, gradients or what was sent. Runs on a GPU continue without waiting until some hook
  /// looks, and then call after_step for each of the steps since; before that step, these views hold what they may.
  virtual std::uint64_t next_sync_step(std::uint64_t steps_done) const { return steps_done + 1; }
  /// Adds what a run that continues from a checkpoint needs, in order to report what it would have without a break, to
  /// the checkpoint's entries; by names that are the hook's own. Called for the hooks of rank 0 when a checkpoint is
  /// saved: hooks that come before the one that saves have seen the step then.
  virtual void save_state(std::map<std::string, std::string>& /*entries*/) const {}
  /// Takes up what rank 0 saved, on every rank on which the hook is called; comes before before_train.
  /// @param entries  all of the checkpoint
  /// @throws DataError if what is the hook's is damaged
  virtual void restore_state(const std::map<std::string, std::string>& /*entries*/) {}
  /// Hooks run on the chief (rank 0) only unless this is true.
  virtual bool on_every_rank() const { return false; }
};

/// On which ranks a hook runs.
enum class HookRanks { kChief, kEvery };

using StepFunction = std::function<HookVerdict(const TrainingView&, const StepView&)>;
/// Calls `function` after steps n, 2n, 3n, ... (counted from 1). @throws InvalidArgument if n < 1
std::unique_ptr<Hook> every_steps(std::uint64_t n, StepFunction function, HookRanks ranks = HookRanks::kChief);
/// Calls `function` once, after `n` steps.
std::unique_ptr<Hook> at_step(std::uint64_t n, StepFunction function, HookRanks ranks = HookRanks::kChief);

}  // namespace terngrad
