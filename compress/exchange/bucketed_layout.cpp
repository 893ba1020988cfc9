#include "compress/exchange/bucketed_layout.h"

#include <algorithm>
#include <utility>

#include "kernels/runtime/errors.h"

namespace terngrad {

BucketedLayout::BucketedLayout(const Layout& layout, CodecPlanOptions codecs, int num_workers, Buckets buckets)
    : layout_(layout),
      plan_(layout, with_workers(std::move(codecs), num_workers)),
      buckets_(std::move(buckets)),
      places_(static_cast<std::size_t>(layout.num_segments())) {
  check_buckets(layout_, buckets_);
  if (buckets_.size() == 1) {
    // In layout order, whatever the order of the argument.
    std::ranges::sort(buckets_[0]);
    layouts_.push_back(layout_);
  } else {
    for (const CodecPlan::Group& group : plan_.groups()) {
      TERNGRAD_REQUIRE(group.codec->traits().per_tensor, "[buckets] the codec ", group.codec->name(),
                       " needs all of its tensors at once (scaler_scope model), so they cannot be in ", buckets_.size(),
                       " buckets");
    }
    for (const std::vector<int>& bucket : buckets_) layouts_.push_back(layout_.select(bucket));
  }
  for (std::size_t bucket = 0; bucket < buckets_.size(); ++bucket) {
    for (std::size_t i = 0; i < buckets_[bucket].size(); ++i) {
      places_[static_cast<std::size_t>(buckets_[bucket][i])] = {bucket, static_cast<int>(i)};
    }
  }
}

CodecPlan BucketedLayout::plan_of(std::size_t bucket) const {
  if (buckets_.size() == 1) return plan_;
  return {plan_, layouts_.at(bucket), buckets_.at(bucket)};
}

ExchangeAlgorithm BucketedLayout::algorithm_of(std::size_t bucket, ExchangeAlgorithm asked) const {
  return algorithm_of_part(asked, plan_, plan_of(bucket));
}

TensorTable BucketedLayout::select(std::size_t bucket, const TensorTable& whole) const {
  std::vector<void*> tensors;
  tensors.reserve(buckets_.at(bucket).size());
  for (const int segment : buckets_[bucket]) tensors.push_back(const_cast<void*>(whole.data(segment)));
  return {layouts_[bucket], whole.type(), tensors};
}

std::vector<TensorTable> BucketedLayout::select(std::size_t bucket, std::span<const TensorTable> whole) const {
  std::vector<TensorTable> tables;
  tables.reserve(whole.size());
  for (const TensorTable& table : whole) tables.push_back(select(bucket, table));
  return tables;
}

BucketedLayout::Place BucketedLayout::place_of(int segment) const {
  TERNGRAD_REQUIRE(segment >= 0 && segment < layout_.num_segments(), "[exchange] no tensor ", segment);
  return places_[static_cast<std::size_t>(segment)];
}

}  // namespace terngrad
