// HostTrainer: training on the CPU.
#pragma once

#include <cstdint>
#include <functional>
#include <memory>
#include <vector>

#include "compress/exchange/bucket_plan.h"
#include "compress/route/exchange_report.h"
#include "trainers/loop/served_parameters.h"
#include "trainers/loop/trainer.h"
#include "trainers/optim/gradient_transform.h"
#include "trainers/optim/transform_counts.h"

namespace terngrad {

class CompressedAllReduce;
class Dataset;
class ExchangeThread;
class Pipeline;
struct WorkerGradients;

/// Components of a HostTrainer.
struct TrainerParts {
  TrainerParts();
  TrainerParts(TrainerParts&&) noexcept;
  ~TrainerParts();

  std::unique_ptr<Net> net;
  std::shared_ptr<const Dataset> dataset;  // training subset
  /// Set if servers update the parameters: the exchange then outputs parameters instead of a mean gradient, and
  /// `optimizer` only holds slots to save and restore checkpoints.
  std::unique_ptr<ServedParameters> served;
  /// Exchanges of the net's tensors between `workers`, of which each step uses one.
  std::vector<std::unique_ptr<CompressedAllReduce>> exchanges;
  /// Index of the exchange that a step uses (Optimizer::use_exchange).
  std::function<std::size_t(std::uint64_t step)> exchange_of = [](std::uint64_t) { return std::size_t{0}; };
  Buckets buckets;  // parts of each step, in order; empty: all tensors at once
  std::unique_ptr<Optimizer> optimizer;
  std::vector<std::unique_ptr<GradientTransform>> transforms;
  Schedule schedule;
  WorkerGroup workers;
};

/// The loop on the CPU. A server computes no gradients, but does everything else: it holds a replica of the parameters.
class HostTrainer final : public Trainer {
 public:
  /// @throws InvalidArgument without an exchange, for buckets that check_buckets refuses, if options.overlap is set
  /// and a transform is not per tensor, and if servers update and the optimizer has a message_transform
  HostTrainer(TrainerParts parts, const TrainerOptions& options);
  ~HostTrainer() override;
  std::uint64_t run() override;
  std::vector<Optimizer::Slot> slots() override;
  TrainingView::Memories memories() override;
  TrainingView::Shared shared() override;

 private:
  void send_heartbeat() override;
  std::function<void()> slot_gatherer() override;
  /// Report and times of combining a step's gradients.
  struct Combined {
    ExchangeReport report;
    double compute_seconds = 0;
    double hidden_seconds = 0;
    double exposed_seconds = 0;
  };

  /// Lets hooks change the run. @throws NotSupported if servers update the parameters
  void change_run();
  /// Runs a step and its hooks. @param pipeline  nullptr on a server
  void step(Pipeline* pipeline);
  /// Computes all gradients, then combines them.
  Combined compute_then_combine(const TrainBatch& batch);
  /// Combines buckets of tensors while others are still being computed. Same bits.
  Combined compute_while_combining(const TrainBatch& batch);
  CompressedAllReduce& exchange_of(std::uint64_t step);
  /// Exchanges one bucket and records it in the trace.
  void exchange_bucket(CompressedAllReduce& exchange, int bucket);
  /// Applies the mean gradient, or takes over the servers' parameters.
  void update_parameters(double learning_rate);
  WorkerGradients worker_gradients();
  void apply_transforms_to_tensor(int worker, int segment);

  TrainerParts parts_;
  Buckets buckets_;  // parts_.buckets without frozen tensors
  Stream stream_;
  std::vector<Buffer<float>> states_before_;  // states before the step, restored if it is skipped
  std::vector<float*> state_pointers_;
  Buffer<float> gradients_;  // [local workers][flat elements]
  std::vector<float*> gradient_pointers_;
  std::vector<TensorTable> gradient_tables_;
  Buffer<float> mean_;  // mean gradient, or the servers' parameters
  TensorTable mean_table_;
  std::vector<WorkerLoss> losses_;
  std::vector<float> logits_;  // of the local workers' examples
  /// Counts of the step: one entry per local worker if tensors are transformed one by one, else all in the first.
  std::vector<TransformCounts> transform_counts_;
  std::unique_ptr<ExchangeThread> exchange_thread_;  // null without overlap; last member, as it uses the others
};

}  // namespace terngrad
