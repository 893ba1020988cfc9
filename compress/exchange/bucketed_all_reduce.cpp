#include "compress/exchange/bucketed_all_reduce.h"

#include <utility>

#include "compress/exchange/part_clock.h"
#include "compress/route/downlink_forms.h"
#include "compress/transport/exchange_peers.h"
#include "kernels/runtime/errors.h"

namespace terngrad {

BucketedAllReduce::BucketedAllReduce(const Layout& layout, const WorkerGroup& workers,
                                     const CompressedAllReduceOptions& options, Buckets buckets)
    : layout_(layout, options.codecs, workers.num_workers, std::move(buckets)),
      options_(options),
      num_workers_(workers.num_workers),
      num_local_workers_(workers.num_local_workers),
      stream_(Device::cpu(), options.num_threads),
      flags_(options.on_nonfinite, stream_),
      factors_(layout, layout_.plan()) {
  require_downlink(layout_.plan(), options.downlink_codec, options.algorithm);
  // An update cannot be undone if a later bucket drops the step.
  TERNGRAD_REQUIRE(options.update == nullptr || layout_.num_buckets() == 1,
                   "[buckets] an update of shards needs all tensors in one bucket, got ", layout_.num_buckets());
  for (std::size_t bucket = 0; bucket < layout_.num_buckets(); ++bucket) {
    CompressedAllReduceOptions own = options;
    own.algorithm = layout_.algorithm_of(bucket, options.algorithm);
    parts_.emplace_back().exchange =
        make_part_exchange(layout_.layout_of(bucket), layout_.plan_of(bucket),
                           {workers, own, stream_, flags_, factors_}, layout_.buckets()[bucket]);
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
    parts_[bucket].gradients = layout_.select(bucket, gradients);
    parts_[bucket].mean = layout_.select(bucket, mean);
  }
  step_ = step;
  next_ = 0;
  is_begun_ = true;
  has_sent_ = false;
  report_ = {};
  flags_.begin_step(stream_);
}

ExchangeReport BucketedAllReduce::exchange_bucket(int bucket) {
  TERNGRAD_REQUIRE(is_begun_ && next_ < parts_.size() && static_cast<std::size_t>(bucket) == next_, "[buckets] bucket ",
                   bucket, " is not the next one to exchange");
  Part& part = parts_[next_];
  PartClock clock(stream_.device(), /*is_on=*/true);
  part.exchange->run(part.gradients, part.mean, {step_, nullptr}, stream_, clock);
  ExchangeReport report{part.exchange->bytes()};
  clock.add_to(report);
  report_ += report;
  ++next_;
  return report;
}

ExchangeReport BucketedAllReduce::finish() {
  TERNGRAD_REQUIRE(is_begun_ && next_ == parts_.size(), "[buckets] the step ends with ", next_, " of ", parts_.size(),
                   " buckets exchanged");
  is_begun_ = false;
  flags_.found(stream_).apply_policy(options_.on_nonfinite, layout_.layout(), num_workers_, step_, report_);
  has_sent_ = !report_.skipped;
  for (std::size_t bucket = 0; has_sent_ && bucket < parts_.size(); ++bucket) parts_[bucket].exchange->commit(stream_);
  return report_;
}

float BucketedAllReduce::decode_local(int local_worker, int segment, std::span<float> out) {
  const BucketedLayout::Place place = layout_.place_of(segment);
  TERNGRAD_REQUIRE(has_sent_ || out.empty(), "[exchange] the last step sent nothing of tensor ", segment);
  return parts_[place.bucket].exchange->decode_local(local_worker, place.segment, out, stream_);
}

void BucketedAllReduce::update_memory(MemoryUpdate what, std::span<const TensorTable> encoded,
                                      std::span<const TensorTable> kept) {
  for (std::size_t bucket = 0; bucket < parts_.size(); ++bucket) {
    parts_[bucket].exchange->update_memory(what, layout_.select(bucket, encoded), layout_.select(bucket, kept),
                                           stream_);
  }
}

}  // namespace terngrad
