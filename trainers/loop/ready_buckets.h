// ReadyBuckets: finds out when all gradients of a bucket are computed.
#pragma once

#include <functional>
#include <mutex>
#include <vector>

#include "compress/exchange/bucket_plan.h"

namespace terngrad {

/// Counts the tensors that the workers of a process still have to compute in a step. A bucket is ready when all workers
/// have computed all of its tensors. Buckets are announced in order: a ready one waits for its predecessors.
class ReadyBuckets {
 public:
  /// @param buckets   valid as for check_buckets, but may lack tensors (frozen ones); must outlive the object
  /// @param on_ready  called for each bucket, never concurrently, in the thread that made it ready
  ReadyBuckets(const Buckets& buckets, int num_workers, std::function<void(int bucket)> on_ready);

  /// Records that one more worker has computed `segment`; thread-safe. @throws exceptions of on_ready; InvalidArgument
  /// for a segment in no bucket, or marked more often than there are workers
  void mark(int segment);

  /// True if every bucket has been announced.
  bool all_announced();

 private:
  const Buckets& buckets_;
  std::function<void(int)> on_ready_;
  std::mutex mutex_;
  std::vector<std::size_t> bucket_of_;  // by segment
  std::vector<int> missing_of_segment_;
  std::vector<std::size_t> missing_;  // by bucket: tensors times workers
  std::size_t next_ = 0;              // next bucket to announce
};

}  // namespace terngrad
