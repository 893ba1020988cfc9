#include "compress/exchange/bucket_plan.h"

#include <algorithm>
#include <numeric>
#include <utility>

#include "kernels/runtime/errors.h"

namespace terngrad {

Buckets whole_bucket(const Layout& layout) {
  std::vector<int> all(static_cast<std::size_t>(layout.num_segments()));
  std::iota(all.begin(), all.end(), 0);
  return {std::move(all)};
}

Buckets plan_buckets(const Layout& layout, std::span<const int> order, std::int64_t bucket_bytes) {
  TERNGRAD_REQUIRE(bucket_bytes >= 1, "[buckets] a bucket must hold at least 1 byte, got ", bucket_bytes);
  Buckets buckets;
  std::vector<int> open;
  std::int64_t bytes = 0;
  for (const int segment : order) {
    TERNGRAD_REQUIRE(segment >= 0 && segment < layout.num_segments(), "[buckets] there is no tensor ", segment);
    open.push_back(segment);
    bytes += layout.segment(segment).num_elements * std::int64_t{sizeof(float)};
    if (bytes < bucket_bytes) continue;
    buckets.push_back(std::exchange(open, {}));
    bytes = 0;
  }
  if (bytes > 0 || buckets.empty()) {
    buckets.push_back(open);
  } else {
    buckets.back().insert(buckets.back().end(), open.begin(), open.end());
  }
  for (std::vector<int>& bucket : buckets) std::ranges::sort(bucket);
  check_buckets(layout, buckets);
  return buckets;
}

void check_buckets(const Layout& layout, const Buckets& buckets) {
  std::vector<int> times(static_cast<std::size_t>(layout.num_segments()), 0);
  for (const std::vector<int>& bucket : buckets) {
    TERNGRAD_REQUIRE(!bucket.empty() || layout.num_segments() == 0, "[buckets] a bucket has no tensors");
    for (const int segment : bucket) {
      TERNGRAD_REQUIRE(segment >= 0 && segment < layout.num_segments(), "[buckets] there is no tensor ", segment);
      ++times[static_cast<std::size_t>(segment)];
    }
  }
  for (const Segment& segment : layout.segments()) {
    const int found = times[static_cast<std::size_t>(&segment - layout.segments().data())];
    TERNGRAD_REQUIRE(found == 1, "[buckets] tensor '", segment.name, "' is in ", found, " buckets, must be in one");
  }
}

}  // namespace terngrad
