// AsyncTrainer: the server's loop of asynchronous training.
#pragma once

#include <chrono>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "compress/comm/mailbox.h"
#include "trainers/async/async_server.h"
#include "trainers/async/async_worker.h"
#include "trainers/loop/push_counts.h"
#include "trainers/loop/trainer.h"

namespace terngrad {

/// Components of an AsyncTrainer.
struct AsyncTrainerParts {
  std::unique_ptr<Net> net;  // provides the layout, and evaluates
  std::unique_ptr<Optimizer> optimizer;
  Schedule schedule;
  std::shared_ptr<const PushProtocol> protocol;
  AsyncServerOptions server;
  /// Without a mailbox: all workers of the run, in order. With one: empty.
  std::vector<std::unique_ptr<AsyncWorker>> workers;
  int threads_per_worker = 1;  // threads of each worker's net
  /// Connects the ranks: worker_range distributes the workers over ranks 1 and up. nullptr: emulate in one process.
  std::shared_ptr<Mailbox> mailbox;
};

/// Asynchronous training of N workers: an AsyncServer applies each push on arrival. A step is N received pushes of any
/// workers, applied or not, so that a run sees as many examples as a synchronous one. A push uses the learning rate of
/// the step that it falls in; averages are updated after each step.
///
/// Without a mailbox, one process emulates it: workers take turns, each with the parameters that it pulled after its
/// previous push. From the second round on each push is N - 1 updates stale, and the run's bits depend on options and
/// seed only, as in synchronous training. Over ranks, they depend on the order of arrival.
class AsyncTrainer final : public Trainer {
 public:
  AsyncTrainer(AsyncTrainerParts parts, const TrainerOptions& options);
  ~AsyncTrainer() override;
  std::uint64_t run() override;
  std::vector<Optimizer::Slot> slots() override { return parts_.optimizer->slots(); }
  /// Memories of the workers in this process; empty with a mailbox, since other ranks' memories start anew on a resume.
  TrainingView::Memories memories() override;
  bool keeps_what_is_saved() const override { return false; }
  /// Restores counters and, without a mailbox, the parameters that the workers had pulled. If the checkpoint has none,
  /// they pull again.
  void restore_extra(const Checkpoint& checkpoint) override;
  /// Pushes of the whole run, including those before a resume.
  const PushCounts& push_counts() const { return counts_; }

 private:
  struct Pulled {  // a worker's last pull
    std::uint64_t version = 0;
    Buffer<float> parameters;
  };
  /// Sums over the pushes of a step.
  struct Step {
    int num_pushes = 0;
    PushCounts counts;
    double loss = 0;
    std::uint64_t num_correct = 0;
    TransformCounts transform_counts;
    ExchangeReport report;
    double data_seconds = 0;
    double compute_seconds = 0;
    double update_seconds = 0;
  };

  void add_to_view(TrainingView& view) override;
  /// Runs all steps in this process.
  void emulate();
  void let_workers_begin();
  void emulate_round();
  void serve();
  /// Answers incoming messages with stop until all ranks have left.
  void drain_workers();
  /// @throws CommunicationError unless `worker` is one of rank `from`
  void require_worker_of(int from, int worker) const;
  /// Applies a push, adds it to the step and writes the answer.
  void take(const Parcels& push, Parcels& answer);
  void end_step();

  AsyncTrainerParts parts_;
  Stream stream_;
  AsyncServer server_;
  PushCounts counts_;
  Step step_;
  std::chrono::steady_clock::time_point step_begin_;
  bool is_asked_to_stop_ = false;  // a worker asked to stop
  std::vector<Pulled> restored_;   // [workers] or none
};

}  // namespace terngrad
