#include "trainers/optim/trained_tensors.h"

#include <algorithm>
#include <utility>

#include "kernels/runtime/errors.h"

namespace terngrad {

TrainedTensors::TrainedTensors(const Layout& layout, std::vector<bool> frozen)
    : whole_(whole_range(layout)), frozen_(std::move(frozen)) {
  if (std::ranges::find(frozen_, true) == frozen_.end()) {
    ranges_ = {whole_};
    return;
  }
  TERNGRAD_REQUIRE(frozen_.size() == static_cast<std::size_t>(layout.num_segments()), "[freeze] there are ",
                   layout.num_segments(), " tensors, got ", frozen_.size(), " flags");
  std::vector<int> trained;
  std::vector<int> others;
  for (int segment = 0; segment < layout.num_segments(); ++segment) {
    (is_frozen(segment) ? others : trained).push_back(segment);
  }
  TERNGRAD_REQUIRE(!trained.empty(), "[freeze] all tensors are frozen: nothing is left to train");
  ranges_ = ranges_of(layout, trained);
  frozen_ranges_ = ranges_of(layout, others);
}

Buckets TrainedTensors::of(const Buckets& buckets) const {
  Buckets result;
  for (std::vector<int> bucket : buckets) {
    std::erase_if(bucket, [this](int segment) { return is_frozen(segment); });
    if (!bucket.empty()) result.push_back(std::move(bucket));
  }
  return result;
}

}  // namespace terngrad
