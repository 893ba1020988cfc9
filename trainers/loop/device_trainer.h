// DeviceTrainer: training on GPUs.
#pragma once

#include <functional>
#include <memory>
#include <vector>

#include "compress/comm/watchdog.h"
#include "compress/exchange/on_nonfinite.h"
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

struct DeviceTrainerParts {
  /// One per GPU of this process, in the order of their workers; together they hold the process's workers.
  std::vector<std::unique_ptr<DeviceReplica>> replicas;
  Schedule schedule;
  WorkerGroup workers;
  OnNonfinite on_nonfinite = OnNonfinite::kStop;  // of the exchanges
  /// How long a burst may take where the run has several GPUs, of one process or more; 0: for ever. A replica whose own
  /// limit is lower (DeviceReplicaParts::timeout_seconds) gives up in good order before.
  double timeout_seconds = 0;
  /// What to do when a burst takes longer than that, in a call of a library that nothing else ends.
  Watchdog::Action on_hang = end_process("terngrad");
  /// Which of the replicas' exchanges a step takes.
  std::function<std::size_t(std::uint64_t step)> exchange_of = [](std::uint64_t) { return std::size_t{0}; };
};

/// The loop on GPUs: bursts of steps that run without the host, as long as no hook looks (Hook::next_sync_step) and
/// about a fifth of a second at most, so that progress is shown and signals are heard. Results do not depend on the
/// lengths of bursts. Where a gradient that is not finite does not stop the run, the host sees to each step, so bursts
/// are of one. The loop runs each replica in its own thread if there are several.
///
/// Of several processes all run the same bursts, as long as the shortest that one of them wants: they agree before
/// each, on the host, and tell each other afterwards what its steps were like. Ranks of the replicas' communicators are
/// all GPUs of all processes, in the order of their workers.
class DeviceTrainer final : public Trainer {
 public:
  /// @throws InvalidArgument if the replicas' workers are not those of the process
  DeviceTrainer(DeviceTrainerParts parts, const TrainerOptions& options);
  ~DeviceTrainer() override;
  /// As Trainer::run. @throws CommunicationError if GPUs wait until the timeout; of several processes that which is
  /// lost is named
  std::uint64_t run() override;
  std::vector<Optimizer::Slot> slots() override;
  TrainingView::Memories memories() override;
  TrainingView::Factors factors() override;

 private:
  using Outcomes = std::vector<std::vector<StepOutcome>>;  // of each replica

  int num_replicas() const override { return static_cast<int>(parts_.replicas.size()); }
  void show_replica(int replica) override;
  DeviceReplica& chief() { return *parts_.replicas[0]; }
  void load();
  void store();
  ReplicaState state_of(std::size_t replica);
  std::uint64_t burst_length() const;
  /// The minimum of all processes' numbers, which are below 2^32.
  std::uint64_t min_over_ranks(std::uint64_t number) const;
  /// How many steps all processes run next. Stops the run after one more where any of them asks to.
  std::uint64_t agreed_length();
  void prepare(std::uint64_t count);
  bool can_prepare(std::uint64_t count);
  /// Makes `length` steps ready, or one where one of all processes cannot. @returns how many
  std::uint64_t prepare_burst(std::uint64_t length);
  void run_burst();
  /// Lets GPUs of this process allocate and load what steps need, before any waits for another. The steps that are
  /// prepared stay so.
  void rehearse(std::uint64_t num_prepared);
  std::vector<cuda::StepInput> step_inputs(std::uint64_t count);
  Outcomes run_steps(std::uint64_t first_step, std::uint64_t count);
  /// Gives all processes the state of the first, if it is time for that after `steps_done` steps.
  void rebroadcast_at(std::uint64_t steps_done);
  LocalStep local_step(const Outcomes& outcomes, std::size_t index, const ExchangeReport& report) const;
  /// @param seconds, data_seconds  of each step of the burst
  void report_step(const StepSummary& summary, ExchangeReport report, double seconds, double data_seconds);
  /// Of the exchange that a step took, with the bytes of all replicas.
  ExchangeReport report_of(std::size_t exchange, std::uint64_t step);

  DeviceTrainerParts parts_;
  std::vector<Buffer<float>> slots_;              // the optimizer's, in host memory
  double seconds_per_step_ = 0;                   // of the last burst; 0: not known yet
  double prepare_seconds_ = 0;                    // of the burst: waiting for examples
  std::vector<Buffer<float>> kept_;               // by workers' memories, in host memory
  Buffer<float> factors_;                         // that all ranks keep alike, in host memory
  std::vector<float> gradient_, encoded_, mean_;  // what a hook asked for last
  std::unique_ptr<Watchdog> watchdog_;            // where there is a limit
  bool has_rehearsed_ = false;
};

}  // namespace terngrad
