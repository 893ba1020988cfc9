// TrainerOptions: what a training run is told besides its net, data, optimizer and exchange.
#pragma once

#include <cstdint>

#include "datasets/dataset.h"

namespace terngrad {

class Trace;
struct PipelineOptions;
struct WorkerRange;

struct TrainerOptions {
  std::int64_t batch_size = 64;  // of all workers together, a multiple of their number
  std::uint64_t total_steps = 1;
  std::uint64_t seed = 1;
  double ema_decay = 0.9999;
  /// What the update is given, in place of the mean over workers: the mean times this, rounded once. The number of
  /// workers makes it their sum.
  float mean_factor = 1;
  int num_threads = 1;       // of this process
  int num_data_threads = 1;  // threads that prepare examples
  ShuffleOptions shuffle = {};
  /// Steps after which all ranks take over rank 0's parameters, average and slots: a guard against replicas that drift
  /// apart, which exchanges of equal bits do not let happen. 0: never.
  std::uint64_t rebroadcast_steps = 0;
  /// The process's data are its own shard: its workers take their batches from that alone, in its own order.
  bool has_data_shard = false;
  /// Where the parts of its steps are told; nullptr: nowhere. Outlives the trainer.
  Trace* trace = nullptr;
  bool overlap = false;  // exchange tensors while others are still being computed; no bit depends on it
};

/// What the pipeline of these workers' examples is made with; its first step is the run's.
/// @param of_process  all workers of the process, who have a shard of the data in common if there are shards
PipelineOptions pipeline_options(const WorkerRange& workers, const WorkerRange& of_process,
                                 const TrainerOptions& options);

}  // namespace terngrad
