// BatchOrder: the examples of each step's batch.
#pragma once

#include <cstdint>
#include <vector>

#include "datasets/dataset.h"
#include "datasets/pipeline.h"

namespace terngrad {

/// The example at one place of a batch.
struct OrderedExample {
  std::uint32_t index = 0;  // index in the data set
  std::uint64_t epoch = 0;  // epoch of the visit
};

/// The examples of this process's workers, step by step, as Pipeline documents them: place i of step s is position
/// p = s * batch_size + first_local_worker * batch_size / num_workers + i of the joint stream, which holds example
/// permutation(epoch)[p mod num_examples] of epoch p / num_examples (datasets/shuffle.h), or the one that
/// ShuffleOptions::example_at gives for s and p - s * batch_size. Depends on seed, step,
/// options and, for a window shuffle, the set's shards only. Caches the permutation of the last requested epoch, so
/// consecutive steps are cheap. Not thread-safe; copies are independent.
class BatchOrder {
 public:
  /// @throws InvalidArgument as check_pipeline_options
  BatchOrder(const Dataset* dataset, const PipelineOptions& options);

  /// Number of the local workers' examples per step: num_local_workers * batch_size / num_workers.
  std::int64_t local_batch() const { return local_batch_; }
  /// Epoch of the step's first example over all workers.
  std::uint64_t epoch(std::uint64_t step) const;
  /// @param place  in [0, local_batch())
  /// @throws InvalidArgument for an epoch of more than 40 bits or an index that example_at may not give; its exceptions
  OrderedExample at(std::uint64_t step, std::int64_t place);

 private:
  std::uint64_t num_examples_ = 0;
  std::uint64_t batch_size_ = 0;
  std::int64_t local_batch_ = 0;
  std::uint64_t local_begin_ = 0;  // first place of the local workers in the joint batch
  std::uint64_t seed_ = 0;
  ShuffleOptions shuffle_;
  std::vector<std::int64_t> shard_sizes_;  // for a window shuffle
  std::uint64_t permuted_epoch_ = 0;
  std::vector<std::uint32_t> permutation_;  // permutation of permuted_epoch_; empty before the first use
};

}  // namespace terngrad
