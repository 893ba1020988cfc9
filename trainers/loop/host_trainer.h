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

/// What a trainer is put together from; all through interfaces.
struct TrainerParts {
  std::unique_ptr<Net> net;
  std::shared_ptr<const Dataset> dataset;  // training subset
  /// Where servers update the parameters: the strategy then writes these instead of a mean gradient. The optimizer is
  /// only where a checkpoint's slots are gathered and restored.
  std::unique_ptr<ServedParameters> served;
  std::unique_ptr<Strategy> strategy;
  std::unique_ptr<Optimizer> optimizer;
  std::vector<std::unique_ptr<GradientTransform>> transforms;
  Schedule schedule;
  WorkerGroup workers;
};

/// The loop on the CPU, where every call has done its work when it returns. A server computes no gradients, but does
/// everything else: it holds a replica of the parameters.
class HostTrainer final : public Trainer {
 public:
  /// @throws InvalidArgument if options.overlap is set with a strategy that takes whole gradients only
  /// (Strategy::in_buckets) or a transform that is not per tensor
  HostTrainer(TrainerParts parts, const TrainerOptions& options);
  ~HostTrainer() override;
  std::uint64_t run() override;
  std::vector<Optimizer::Slot> slots() override;
  TrainingView::Memories memories() override;
  TrainingView::Factors factors() override;

 private:
  std::function<void()> slot_gatherer() override;
  /// What the workers' gradients of a step became: the mean, unless it is to be skipped.
  struct Combined {
    StrategyResult result;
    double compute_seconds = 0;
    double hidden_seconds = 0;
    double exposed_seconds = 0;
  };

  /// @param pipeline  nullptr on a server
  void step(Pipeline* pipeline);
  /// Computes all gradients, then combines them.
  Combined compute_then_combine(const TrainBatch& batch);
  /// Combines buckets of tensors while others are still being computed. The same bits.
  Combined compute_while_combining(const TrainBatch& batch);
  /// One bucket, for the trace too.
  void exchange_bucket(BucketedExchange& exchange, int bucket);
  /// Takes over what the step came to: the mean gradient, or parameters.
  void update_parameters(double learning_rate);
  WorkerGradients worker_gradients();
  void apply_transforms_to_tensor(int worker, int segment);

  TrainerParts parts_;
  Stream stream_;
  std::vector<Buffer<float>> states_before_;  // states before the step, to go back to if it is skipped
  std::vector<float*> state_pointers_;
  Buffer<float> gradients_;  // [local workers][flat elements]
  std::vector<float*> gradient_pointers_;
  std::vector<TensorTable> gradient_tables_;
  Buffer<float> mean_;  // or parameters from servers
  std::vector<WorkerLoss> losses_;
  /// Of the step: one per local worker where tensors are changed one by one, else all in the first.
  std::vector<TransformCounts> transform_counts_;
  std::unique_ptr<ExchangeThread> exchange_thread_;  // where steps overlap; last, as it uses what is above
};

}  // namespace terngrad
