// AsyncTrainer: the serving side of asynchronous training.
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

struct AsyncTrainerParts {
  std::unique_ptr<Net> net;  // for the layout, and to evaluate with
  std::unique_ptr<Optimizer> optimizer;
  Schedule schedule;
  std::shared_ptr<const PushProtocol> protocol;
  AsyncServerOptions server;
  /// Alone, all workers of the run, in order; else none.
  std::vector<std::unique_ptr<AsyncWorker>> workers;
  int threads_per_worker = 1;  // of their nets
  /// To the ranks of the workers, spread by worker_range over ranks 1 and up; nullptr alone.
  std::shared_ptr<Mailbox> mailbox;
};

/// Asynchronous training of N workers: an AsyncServer applies each push on arrival. A step is N pushes that came, of
/// whichever workers, applied or not, so that a run sees as many examples as a synchronous one; the learning rate of a
/// push is that of the step it falls in, and averages follow after each step.
///
/// Alone, the process emulates it: workers take turns, each with the parameters that it pulled after its push before.
/// From the second round on a push is then N - 1 updates stale, and the run's bits depend on options and seed alone, as
/// those of a synchronous one. Over ranks, the order of arrival decides.
class AsyncTrainer final : public Trainer {
 public:
  AsyncTrainer(AsyncTrainerParts parts, const TrainerOptions& options);
  ~AsyncTrainer() override;
  std::uint64_t run() override;
  std::vector<Optimizer::Slot> slots() override { return parts_.optimizer->slots(); }
  /// Of the workers in this process: over ranks nothing, since what other ranks keep begins anew with them.
  TrainingView::Memories memories() override;
  bool keeps_what_is_saved() const override { return false; }
  /// Counters, and alone the parameters that workers had pulled, if they are there: else they pull from scratch.
  void restore_extra(const Checkpoint& checkpoint) override;
  /// Of the whole run, what came before a resume included.
  const PushCounts& push_counts() const { return counts_; }

 private:
  struct Pulled {  // by a worker
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
  void emulate();
  void let_workers_begin();
  void emulate_round();
  void serve();
  /// Answers what still comes until all ranks have left.
  void drain_workers();
  /// @throws CommunicationError unless `worker` is one of rank `from`
  void require_worker_of(int from, int worker) const;
  /// Takes a push and answers it.
  void take(const Parcels& push, Parcels& answer);
  void end_step();

  AsyncTrainerParts parts_;
  Stream stream_;
  AsyncServer server_;
  PushCounts counts_;
  Step step_;
  std::chrono::steady_clock::time_point step_begin_;
  bool is_asked_to_stop_ = false;  // by a worker
  std::vector<Pulled> restored_;   // [workers] or none
};

}  // namespace terngrad
