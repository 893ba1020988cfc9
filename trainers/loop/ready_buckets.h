// ReadyBuckets: which buckets of a gradient are computed.
#pragma once

#include <functional>
#include <mutex>
#include <vector>

#include "compress/exchange/bucket_plan.h"

namespace terngrad {

/// Counts the tensors that the workers of a process still have to compute in a step. A bucket is ready when all of them
/// are done with all of its tensors; buckets are announced in order, so one that is ready waits for those before it.
class ReadyBuckets {
 public:
  /// @param buckets   as check_buckets wants them; outlive the object
  /// @param on_ready  called for each bucket, one call at a time, from the thread that made it ready
  ReadyBuckets(const Buckets& buckets, int num_workers, std::function<void(int bucket)> on_ready);

  /// One more worker is done with `segment`. Any thread may call it. @throws what on_ready throws; InvalidArgument for
  /// a segment in no bucket, or that more workers are done with than there are
  void mark(int segment);

  /// Whether every bucket has been announced.
  bool all_announced();

 private:
  const Buckets& buckets_;
  std::function<void(int)> on_ready_;
  std::mutex mutex_;
  std::vector<std::size_t> bucket_of_;  // of each segment
  std::vector<int> missing_of_segment_;
  std::vector<std::size_t> missing_;  // of each bucket: tensors, once for each worker
  std::size_t next_ = 0;              // bucket to announce
};

}  // namespace terngrad
