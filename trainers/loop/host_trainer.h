// HostTrainer: training on the CPU.
#pragma once

#include <memory>
#include <vector>

#include "trainers/loop/served_parameters.h"
#include "trainers/loop/strategy.h"
#include "trainers/loop/trainer.h"
#include "trainers/optim/gradient_transform.h"
#include "trainers/optim/transform_counts.h"

namespace terngrad {

class Dataset;
class ExchangeThread;
class Pipeline;
struct WorkerGradients;

/// Components of a HostTrainer.
struct TrainerParts {
  std::unique_ptr<Net> net;
  std::shared_ptr<const Dataset> dataset;  // training subset
  /// Set if servers update the parameters: the strategy then outputs parameters instead of a mean gradient, and
  /// `optimizer` only holds slots to save and restore checkpoints.
  std::unique_ptr<ServedParameters> served;
  std::unique_ptr<Strategy> strategy;
  std::unique_ptr<Optimizer> optimizer;
  std::vector<std::unique_ptr<GradientTransform>> transforms;
  Schedule schedule;
  WorkerGroup workers;
};

/// The loop on the CPU. A server computes no gradients, but does everything else: it holds a replica of the parameters.
class HostTrainer final : public Trainer {
 public:
  /// @throws InvalidArgument if options.overlap is set and the strategy needs whole gradients (Strategy::in_buckets) or
  /// a transform is not per tensor
  HostTrainer(TrainerParts parts, const TrainerOptions& options);
  ~HostTrainer() override;
  std::uint64_t run() override;
  std::vector<Optimizer::Slot> slots() override;
  TrainingView::Memories memories() override;
  TrainingView::Factors factors() override;

 private:
  std::function<void()> slot_gatherer() override;
  /// Result and times of combining a step's gradients.
  struct Combined {
    StrategyResult result;
    double compute_seconds = 0;
    double hidden_seconds = 0;
    double exposed_seconds = 0;
  };

  /// Runs a step and its hooks. @param pipeline  nullptr on a server
  void step(Pipeline* pipeline);
  /// Computes all gradients, then combines them.
  Combined compute_then_combine(const TrainBatch& batch);
  /// Combines buckets of tensors while others are still being computed. Same bits.
  Combined compute_while_combining(const TrainBatch& batch);
  /// Exchanges one bucket and records it in the trace.
  void exchange_bucket(BucketedExchange& exchange, int bucket);
  /// Applies the mean gradient, or takes over the servers' parameters.
  void update_parameters(double learning_rate);
  WorkerGradients worker_gradients();
  void apply_transforms_to_tensor(int worker, int segment);

  TrainerParts parts_;
  Stream stream_;
  std::vector<Buffer<float>> states_before_;  // states before the step, restored if it is skipped
  std::vector<float*> state_pointers_;
  Buffer<float> gradients_;  // [local workers][flat elements]
  std::vector<float*> gradient_pointers_;
  std::vector<TensorTable> gradient_tables_;
  Buffer<float> mean_;  // mean gradient, or the servers' parameters
  std::vector<WorkerLoss> losses_;
  /// Counts of the step: one entry per local worker if tensors are transformed one by one, else all in the first.
  std::vector<TransformCounts> transform_counts_;
  std::unique_ptr<ExchangeThread> exchange_thread_;  // null without overlap; last member, as it uses the others
};

}  // namespace terngrad
