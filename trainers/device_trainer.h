// DeviceTrainer: training on GPUs.
#pragma once

#include <functional>
#include <memory>
#include <vector>

#include "trainers/device_replica.h"
#include "trainers/trainer.h"

namespace terngrad {

/// Steps that a GPU may run without the host.
inline constexpr int kMaxBurst = 64;

struct DeviceTrainerParts {
  /// One per GPU of this process, in the order of their workers; together they hold the process's workers.
  std::vector<std::unique_ptr<DeviceReplica>> replicas;
  Schedule schedule;
  WorkerGroup workers;
  OnNonfinite on_nonfinite = OnNonfinite::kStop;  // of the exchanges
  /// Which of the replicas' exchanges a step takes.
  std::function<std::size_t(std::uint64_t step)> exchange_of = [](std::uint64_t) { return std::size_t{0}; };
};

/// The loop on GPUs: bursts of steps that run without the host, as long as no hook looks (Hook::next_look) and about a
/// fifth of a second at most, so that progress is shown and signals are heard. Results do not depend on the lengths of
/// bursts. Where a gradient that is not finite does not stop the run, the host sees to each step, so bursts are of one.
/// The loop runs each replica in a thread of its own if there are several.
class DeviceTrainer final : public Trainer {
 public:
  /// @throws InvalidArgument if the replicas' workers are not those of the process
  DeviceTrainer(DeviceTrainerParts parts, const TrainerOptions& options);
  std::uint64_t run() override;
  std::vector<Optimizer::Slot> slots() override;

 private:
  using Records = std::vector<std::vector<cuda::StepRecord>>;  // of each replica

  DeviceReplica& chief() { return *parts_.replicas[0]; }
  void load();
  void store();
  ReplicaState state_of(std::size_t replica);
  std::uint64_t burst_length() const;
  void prepare(std::uint64_t count);
  std::uint64_t prepare_burst();  // how many steps are ready
  void run_burst();
  void report_step(const Records& records, std::size_t index, double seconds);
  /// Of the exchange that a step took, with the bytes of all replicas.
  ExchangeReport report_of(std::size_t exchange, std::uint64_t step);

  DeviceTrainerParts parts_;
  std::vector<Buffer<float>> slots_;  // the optimizer's, in host memory
  double seconds_per_step_ = 0;       // of the last burst; 0: not known yet
  std::vector<float> gradient_;       // what a hook asked for last
};

}  // namespace terngrad
