// Pipeline: shuffled, batched and prefetched examples for the workers of one process.
#pragma once

#include <cstdint>
#include <memory>
#include <optional>
#include <span>

#include "datasets/dataset.h"

namespace terngrad {

/// Options of Pipeline, BatchOrder and DeviceExamples.
struct PipelineOptions {
  std::int64_t batch_size = 0;  // examples of all workers together per step
  int num_workers = 1;          // workers of the whole run; divides batch_size
  int first_local_worker = 0;   // this process has workers [first_local_worker, + num_local_workers)
  int num_local_workers = 1;
  std::uint64_t seed = 1;
  std::uint64_t first_step = 0;  // step of the first batch, not 0 in resumed runs
  int num_threads = 1;           // threads that prepare examples, all for the next needed batch
  int prefetch_batches = 2;      // batches prepared ahead of use, at least 1
  ShuffleOptions shuffle = {};
};

/// @throws InvalidArgument, naming the option, for options that Pipeline rejects, a null data set, or one without
/// examples or with more than kMaxShuffledExamples
void check_pipeline_options(const Dataset* dataset, const PipelineOptions& options);

/// One step's examples for the local workers, worker after worker. Valid until the next call of Pipeline::next.
struct PipelineBatch {
  std::uint64_t step = 0;
  std::uint64_t epoch = 0;               // epoch of the step's first example over all workers
  std::span<const float> images;         // [num_local_workers * batch_size / num_workers, height, width, channels]
  std::span<const std::int32_t> labels;  // [num_local_workers * batch_size / num_workers]
};

/// An endless stream of training batches.
///
/// Position p = step * batch_size + i of the joint stream holds example permutation(epoch)[p mod num_examples] with
/// epoch = p / num_examples: every epoch visits every example once, in an order drawn from (seed, epoch) and the kind
/// of shuffle alone: epoch_permutation, or window_permutation of the set's shards (datasets/shuffle.h). Worker w of N
/// takes the contiguous slice i in [w * batch_size / N, (w + 1) * batch_size / N). ShuffleOptions::example_at takes the
/// place of the permutations. So order and augmentation depend on
/// seed, step and example only, not on N, processes, threads or prefetch depth, and a run resumes exactly at
/// first_step.
class Pipeline {
 public:
  /// @throws InvalidArgument as check_pipeline_options
  Pipeline(std::shared_ptr<const Dataset> dataset, const PipelineOptions& options);
  ~Pipeline();
  Pipeline(const Pipeline&) = delete;
  Pipeline& operator=(const Pipeline&) = delete;

  /// Waits for the next batch. Allocates nothing. Not thread-safe.
  /// @throws any exception of Dataset::read or ShuffleOptions::example_at while preparing it; the stream stays at that
  /// step, so later calls throw too
  PipelineBatch next();
  /// The next batch if it is ready, without waiting. Also empty if preparing it failed: next() then throws the error.
  std::optional<PipelineBatch> try_next();

 private:
  class Impl;
  std::unique_ptr<Impl> impl_;
};

}  // namespace terngrad
