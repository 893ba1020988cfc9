// Trainer: the loop.
#pragma once

#include <memory>
#include <span>
#include <vector>

#include "compress/communicator.h"
#include "datasets/pipeline.h"
#include "kernels/buffer.h"
#include "nets/net.h"
#include "trainers/ema.h"
#include "trainers/gradient_transform.h"
#include "trainers/hook.h"
#include "trainers/optimizer.h"
#include "trainers/schedule.h"
#include "trainers/strategy.h"

namespace terngrad {

/// What a trainer is put together from; all through interfaces.
struct TrainerParts {
  std::unique_ptr<Net> net;
  std::shared_ptr<const Dataset> dataset;  // training subset
  std::unique_ptr<Strategy> strategy;
  std::unique_ptr<Optimizer> optimizer;
  std::vector<std::unique_ptr<GradientTransform>> transforms;
  Schedule schedule;
  WorkerGroup workers;
};

struct TrainerOptions {
  std::int64_t batch_size = 64;  // of all workers together, a multiple of their number
  std::uint64_t total_steps = 1;
  std::uint64_t seed = 1;
  double ema_decay = 0.9999;
  int num_threads = 1;       // of this process
  int num_data_threads = 1;  // threads that prepare examples
};

/// Synchronous training of N workers of which this process holds a contiguous range. Every step: each worker computes
/// the gradient of its slice of the joint batch, transforms are applied, the strategy combines the gradients, and the
/// one copy of the parameters that the process's workers share is updated. Final parameters depend on options and seed
/// alone: not on threads, nor on how workers are spread over processes (contract B3).
class Trainer {
 public:
  /// Parameters are initialized from the seed.
  Trainer(TrainerParts parts, const TrainerOptions& options);
  ~Trainer();

  /// Hooks are called in the order in which they were added.
  void add_hook(std::unique_ptr<Hook> hook);

  /// Trains up to total_steps, or until a hook asks to stop. @returns steps done in all
  /// @throws whatever a part throws; the parameters are then those of the last whole step; the net's state may have
  /// seen the batch that failed
  std::uint64_t run();

  // State, for restoring from a checkpoint before run().
  std::span<float> parameters() { return parameters_.span(); }
  Ema& ema() { return ema_; }
  /// The net's state of a local worker: its moving statistics. A skipped step leaves them as they were.
  std::span<float> state(int local_worker) { return states_.at(static_cast<std::size_t>(local_worker)).span(); }
  /// The moving average of the state of local worker 0, with the decay of `ema`: what evaluation of averaged parameters
  /// uses, as the original does.
  Ema& state_ema() { return state_ema_; }
  int num_local_workers() const { return parts_.workers.num_local_workers; }
  Optimizer& optimizer() { return *parts_.optimizer; }
  Net& net() { return *parts_.net; }
  void set_steps_done(std::uint64_t steps) { steps_done_ = steps; }

 private:
  TrainingView view();
  void step(Pipeline& pipeline);
  HookVerdict call_hooks(const StepView& step);

  TrainerParts parts_;
  TrainerOptions options_;
  Stream stream_;
  Buffer<float> parameters_;
  Ema ema_;
  std::vector<Buffer<float>> states_;         // one per local worker
  std::vector<Buffer<float>> states_before_;  // the same before the step, to go back to if it is skipped
  std::vector<float*> state_pointers_;
  Ema state_ema_;
  std::vector<Buffer<float>> gradients_;  // one per local worker
  std::vector<float*> gradient_pointers_;
  std::vector<TensorTable> gradient_tables_;
  Buffer<float> mean_;
  std::vector<WorkerLoss> losses_;
  std::vector<TransformCounts> transform_counts_;  // of the step, one per local worker
  std::vector<std::unique_ptr<Hook>> hooks_;
  std::uint64_t steps_done_ = 0;
  bool stop_ = false;
};

}  // namespace terngrad
