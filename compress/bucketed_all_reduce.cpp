#include "compress/bucketed_all_reduce.h"

#include <algorithm>
#include <utility>

#include "kernels/errors.h"

namespace terngrad {
namespace {

CodecPlan whole_plan(const Layout& layout, CodecPlanOptions options, int num_workers) {
  options.codec_options.num_workers = num_workers;
  return {layout, options};
}

bool is_summable(const CodecPlan& plan, std::span<const int> segments) {
  return std::ranges::any_of(segments, [&](int segment) { return plan.codec_of(segment).traits().summable; });
}

TensorTable select(const Layout& layout, const TensorTable& whole, std::span<const int> segments) {
  std::vector<void*> tensors;
  tensors.reserve(segments.size());
  for (const int segment : segments) tensors.push_back(const_cast<void*>(whole.data(segment)));
  return {layout, whole.type(), tensors};
}

}  // namespace

BucketedAllReduce::BucketedAllReduce(const Layout& layout, const WorkerGroup& workers,
                                     const CompressedAllReduceOptions& options, Buckets buckets)
    : layout_(layout),
      options_(options),
      num_local_workers_(workers.num_local_workers),
      plan_(whole_plan(layout, options.codecs, workers.num_workers)),
      buckets_(std::move(buckets)),
      places_(static_cast<std::size_t>(layout.num_segments())) {
  check_buckets(layout_, buckets_);
  if (buckets_.size() == 1) {
    // In order of the layout, whatever order they came in.
    std::ranges::sort(buckets_[0]);
    Part& all = parts_.emplace_back();
    all.layout = layout_;
    all.exchange = std::make_unique<CompressedAllReduce>(layout_, plan_, workers, options);
  } else {
    // An update cannot be taken back if a later bucket drops the step.
    TERNGRAD_REQUIRE(options.update == nullptr, "[buckets] an update of shares needs all tensors in one bucket, got ",
                     buckets_.size());
    for (const CodecPlan::Group& group : plan_.groups()) {
      TERNGRAD_REQUIRE(group.codec->traits().per_tensor, "[buckets] the codec ", group.codec->name(),
                       " needs all of its tensors at once (scaler_scope model), so they cannot be in ", buckets_.size(),
                       " buckets");
    }
    for (const std::vector<int>& bucket : buckets_) {
      Part& part = parts_.emplace_back();
      part.layout = layout_.select(bucket);
      CompressedAllReduceOptions own = options;
      // Tensors that do not add up as integers go by all-gather; a bucket may have no others.
      const bool by_sums = options.algorithm == ExchangeAlgorithm::kIntegerSum;
      if (by_sums && is_summable(plan_, whole_bucket(layout_)[0]) && !is_summable(plan_, bucket)) {
        own.algorithm = ExchangeAlgorithm::kAllGather;
      }
      part.exchange =
          std::make_unique<CompressedAllReduce>(part.layout, CodecPlan(plan_, part.layout, bucket), workers, own);
    }
  }
  for (std::size_t bucket = 0; bucket < buckets_.size(); ++bucket) {
    for (std::size_t i = 0; i < buckets_[bucket].size(); ++i) {
      places_[static_cast<std::size_t>(buckets_[bucket][i])] = {bucket, static_cast<int>(i)};
    }
  }
}

ExchangeReport BucketedAllReduce::exchange(std::span<const TensorTable> gradients, const TensorTable& mean,
                                           std::uint64_t step) {
  begin(gradients, mean, step);
  for (std::size_t bucket = 0; bucket < parts_.size(); ++bucket) exchange_bucket(static_cast<int>(bucket));
  return finish();
}

void BucketedAllReduce::begin(std::span<const TensorTable> gradients, const TensorTable& mean, std::uint64_t step) {
  TERNGRAD_REQUIRE(static_cast<int>(gradients.size()) == num_local_workers_, "[exchange] this process has ",
                   num_local_workers_, " workers, got ", gradients.size(), " gradients");
  for (std::size_t bucket = 0; bucket < parts_.size(); ++bucket) {
    Part& part = parts_[bucket];
    part.gradients.clear();
    for (const TensorTable& gradient : gradients) {
      part.gradients.push_back(select(part.layout, gradient, buckets_[bucket]));
    }
    part.mean = select(part.layout, mean, buckets_[bucket]);
  }
  step_ = step;
  next_ = 0;
  is_begun_ = true;
  has_sent_ = false;
  report_ = {};
  found_ = {};
}

ExchangeReport BucketedAllReduce::exchange_bucket(int bucket) {
  TERNGRAD_REQUIRE(is_begun_ && next_ < parts_.size() && static_cast<std::size_t>(bucket) == next_, "[buckets] bucket ",
                   bucket, " is not the next one to exchange");
  Part& part = parts_[next_];
  ExchangeReport report = part.exchange->exchange_part(part.gradients, part.mean, step_, found_);
  report_ += report;
  ++next_;
  return report;
}

ExchangeReport BucketedAllReduce::finish() {
  TERNGRAD_REQUIRE(is_begun_ && next_ == parts_.size(), "[buckets] the step ends with ", next_, " of ", parts_.size(),
                   " buckets exchanged");
  is_begun_ = false;
  found_.settle(options_.on_nonfinite, step_, report_);
  has_sent_ = !report_.skipped;
  return report_;
}

float BucketedAllReduce::decode_local(int local_worker, int segment, std::span<float> out) {
  TERNGRAD_REQUIRE(segment >= 0 && segment < layout_.num_segments(), "[exchange] no tensor ", segment);
  TERNGRAD_REQUIRE(has_sent_ || out.empty(), "[exchange] the last step sent nothing of tensor ", segment);
  const Place place = places_[static_cast<std::size_t>(segment)];
  return parts_[place.bucket].exchange->decode_local(local_worker, place.segment, out);
}

}  // namespace terngrad
