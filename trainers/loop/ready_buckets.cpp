#include "trainers/loop/ready_buckets.h"

#include <algorithm>
#include <utility>

#include "kernels/runtime/errors.h"

namespace terngrad {
namespace {

constexpr int kInNoBucket = -1;

}  // namespace

ReadyBuckets::ReadyBuckets(const Buckets& buckets, int num_workers, std::function<void(int)> on_ready)
    : buckets_(buckets), on_ready_(std::move(on_ready)) {
  std::size_t num_segments = 0;
  for (const std::vector<int>& bucket : buckets) {
    for (const int segment : bucket) num_segments = std::max(num_segments, static_cast<std::size_t>(segment) + 1);
  }
  bucket_of_.resize(num_segments);
  missing_of_segment_.assign(num_segments, kInNoBucket);
  for (std::size_t bucket = 0; bucket < buckets.size(); ++bucket) {
    missing_.push_back(buckets[bucket].size() * static_cast<std::size_t>(num_workers));
    for (const int segment : buckets[bucket]) {
      bucket_of_[static_cast<std::size_t>(segment)] = bucket;
      missing_of_segment_[static_cast<std::size_t>(segment)] = num_workers;
    }
  }
}

void ReadyBuckets::mark(int segment) {
  const std::lock_guard lock(mutex_);
  const auto s = static_cast<std::size_t>(segment);
  TERNGRAD_REQUIRE(segment >= 0 && s < bucket_of_.size() && missing_of_segment_[s] != kInNoBucket, "[buckets] tensor ",
                   segment, " is in no bucket");
  TERNGRAD_REQUIRE(missing_of_segment_[s] > 0, "[buckets] tensor ", segment,
                   " is done more often than there are workers");
  --missing_of_segment_[s];
  --missing_[bucket_of_[s]];
  while (next_ < buckets_.size() && missing_[next_] == 0) on_ready_(static_cast<int>(next_++));
}

bool ReadyBuckets::all_announced() {
  const std::lock_guard lock(mutex_);
  return next_ == buckets_.size();
}

}  // namespace terngrad
