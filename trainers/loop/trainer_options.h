// TrainerOptions: settings of a training run besides net, data, optimizer and exchange.
#pragma once

#include <cstdint>

#include "datasets/dataset.h"

namespace terngrad {

class Trace;
struct PipelineOptions;
struct WorkerRange;

/// Settings of a training run.
struct TrainerOptions {
  std::int64_t batch_size = 64;  // joint batch of all workers; a multiple of their number
  std::uint64_t total_steps = 1;
  std::uint64_t seed = 1;
  double ema_decay = 0.9999;
  /// Factor of the mean gradient before the update, rounded once; the number of workers gives the sum over workers.
  float mean_factor = 1;
  int workers_per_group = 1;  // above 1, groups of workers exchange the mean of their gradients
  int num_threads = 1;        // threads of this process
  int num_data_threads = 1;   // threads that prepare examples
  ShuffleOptions shuffle = {};
  /// Every this number of steps, rank 0's parameters, average and slots are broadcast: a guard against replicas that
  /// drift apart (bit-identical exchanges prevent it). 0: never.
  std::uint64_t rebroadcast_steps = 0;
  /// True if the process has its own data shard: its workers then draw their batches from it alone, in its own order.
  bool has_data_shard = false;
  /// Trace that the steps are recorded in; nullptr for none. Must outlive the trainer.
  Trace* trace = nullptr;
  bool overlap = false;  // exchange tensors while others are still being computed; bits do not depend on it
};

/// Options of the pipeline for these workers' examples, except for first_step.
/// @param of_process  all workers of the process; they share a data shard if has_data_shard is set
PipelineOptions pipeline_options(const WorkerRange& workers, const WorkerRange& of_process,
                                 const TrainerOptions& options);

}  // namespace terngrad
