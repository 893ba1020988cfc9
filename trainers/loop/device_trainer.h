// DeviceTrainer: training on GPUs.
#pragma once

#include <functional>
#include <memory>
#include <vector>

#include "compress/comm/watchdog.h"
#include "compress/plan/exchange_choices.h"
#include "trainers/loop/trainer.h"

namespace terngrad {

namespace cuda {
struct StepInput;
}
class DeviceReplica;
struct LocalStep;
struct ReplicaState;
struct StepOutcome;
struct StepSummary;

/// Components of a DeviceTrainer.
struct DeviceTrainerParts {
  /// One per GPU of this process, in the order of workers; together they hold all workers of the process.
  std::vector<std::unique_ptr<DeviceReplica>> replicas;
  Schedule schedule;
  WorkerGroup workers;
  OnNonfinite on_nonfinite = OnNonfinite::kStop;  // policy of the exchanges
  /// Timeout of a burst if the run has several GPUs, in one process or more; 0: none.
  /// DeviceReplicaParts::timeout_seconds should be lower, so that replicas fail in order before.
  double timeout_seconds = 0;
  /// Called at that timeout, for a burst that hangs in a library call.
  Watchdog::Action on_hang = end_process("terngrad");
  /// Index of the replicas' exchange that a step uses. Not used if their codecs have stages (DeviceReplica::stages).
  std::function<std::size_t(std::uint64_t step)> exchange_of = [](std::uint64_t) { return std::size_t{0}; };
};

/// The loop on GPUs: bursts of steps that run without the host. A burst ends at the next step that a hook reads
/// (Hook::next_sync_step) and after about 0.2 seconds, so that progress is shown and signals are handled. Results do
/// not depend on burst lengths. Unless non-finite gradients stop the run, bursts have one step, after which the host
/// checks for them. Several replicas run in a thread each.
///
/// All processes run the same bursts: before each they agree on the shortest length that one of them wants, on the
/// host, and after it they exchange losses, counts and bytes. The ranks of the replicas' communicators are the GPUs of
/// all processes, in the order of their workers.
class DeviceTrainer final : public Trainer {
 public:
  /// @throws InvalidArgument if the replicas' workers do not add up to those of the process
  DeviceTrainer(DeviceTrainerParts parts, const TrainerOptions& options);
  ~DeviceTrainer() override;
  /// See Trainer::run. @throws CommunicationError if a burst times out; with several processes it names the lost one
  std::uint64_t run() override;
  std::vector<Optimizer::Slot> slots() override;
  TrainingView::Memories memories() override;
  TrainingView::Shared shared() override;

 private:
  using Outcomes = std::vector<std::vector<StepOutcome>>;  // [replica][step of the burst]

  int num_replicas() const override { return static_cast<int>(parts_.replicas.size()); }
  void show_replica(int replica) override;
  DeviceReplica& chief() { return *parts_.replicas[0]; }
  void load();
  void store();
  ReplicaState state_of(std::size_t replica);
  std::uint64_t burst_length() const;
  /// The minimum over all processes. @param number  below 2^32
  std::uint64_t min_over_ranks(std::uint64_t number) const;
  /// Number of steps that all processes run next. If one of them asks to stop, it is 1 and the run stops after it.
  std::uint64_t agreed_length();
  /// Prepares the next `count` steps on all replicas.
  void prepare(std::uint64_t count);
  /// True if `prepare` succeeds; reading examples may fail.
  bool can_prepare(std::uint64_t count);
  /// Prepares `length` steps, or one step if any process cannot. @returns the number of prepared steps
  std::uint64_t prepare_burst(std::uint64_t length);
  void run_burst();
  /// Lets hooks change the run, and takes the changes over to all GPUs of this process.
  void change_run();
  /// Lets the GPUs of this process allocate and load what steps need, before any of them waits for another. The
  /// prepared steps stay prepared.
  void rehearse(std::uint64_t num_prepared);
  std::vector<cuda::StepInput> step_inputs(std::uint64_t count);
  Outcomes run_steps(std::uint64_t first_step, std::uint64_t count);
  /// Rebroadcasts rank 0's state to all processes and replicas if it is due after `steps_done` steps.
  void rebroadcast_at(std::uint64_t steps_done);
  LocalStep local_step(const Outcomes& outcomes, std::size_t index, const ExchangeReport& report) const;
  /// Calls the hooks for a step. @param seconds, data_seconds  mean per step of the burst
  void report_step(const StepSummary& summary, ExchangeReport report, double seconds, double data_seconds);
  /// Report of the step's exchange, with the bytes of all replicas of this process.
  ExchangeReport report_of(std::size_t exchange, std::uint64_t step);

  DeviceTrainerParts parts_;
  std::vector<Buffer<float>> slots_;                           // optimizer slots, in host memory
  double seconds_per_step_ = 0;                                // measured in the last burst; 0: not known yet
  double prepare_seconds_ = 0;                                 // time that the burst waited for examples
  std::vector<std::vector<Buffer<float>>> kept_;               // state of the memories by replica, in host memory
  Buffer<float> shared_;                                       // equal on all ranks, in host memory
  std::vector<float> gradient_, group_mean_, encoded_, mean_;  // last tensors that hooks requested
  std::unique_ptr<Watchdog> watchdog_;                         // null without a timeout
  bool has_rehearsed_ = false;
};

}  // namespace terngrad
