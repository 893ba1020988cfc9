#include "compress/exchange/device/device_bucketed_all_reduce.h"

#include <utility>

#include "compress/exchange/part_clock.h"
#include "compress/transport/exchange_peers.h"
#include "kernels/runtime/errors.h"

namespace terngrad {

DeviceBucketedAllReduce::DeviceBucketedAllReduce(const Layout& layout, const WorkerRange& workers,
                                                 const CompressedAllReduceOptions& options, Buckets buckets,
                                                 const Stream& stream,
                                                 const std::shared_ptr<DeviceCommunicator>& communicator,
                                                 std::shared_ptr<StreamFork> fork)
    : layout_(layout, options.codecs, workers.num_workers, std::move(buckets)),
      num_workers_(workers.num_workers),
      num_local_workers_(workers.num_local_workers),
      stream_(stream),
      fork_(std::move(fork)),
      exchange_stream_(fork_ != nullptr ? fork_->branch(0) : stream_),
      flags_(options.on_nonfinite, stream_),
      factors_(layout, layout_.plan(), stream_.device()) {
  for (std::size_t bucket = 0; bucket < layout_.num_buckets(); ++bucket) {
    CompressedAllReduceOptions own = options;
    own.algorithm = layout_.algorithm_of(bucket, options.algorithm);
    parts_.emplace_back().exchange =
        make_part_exchange(layout_.layout_of(bucket), layout_.plan_of(bucket),
                           {{workers, communicator}, own, stream_, flags_, factors_}, layout_.buckets()[bucket]);
  }
}

std::set<std::string> DeviceBucketedAllReduce::codecs_through_host() const {
  std::set<std::string> names;
  for (const Part& part : parts_) {
    names.merge(terngrad::codecs_through_host(*part.exchange));
  }
  return names;
}

void DeviceBucketedAllReduce::begin(std::span<const TensorTable> gradients, const TensorTable& mean,
                                    const DeviceStep& step) {
  TERNGRAD_REQUIRE(static_cast<int>(gradients.size()) == num_local_workers_, "[exchange] this process has ",
                   num_local_workers_, " workers, got ", gradients.size(), " gradients");
  for (std::size_t bucket = 0; bucket < parts_.size(); ++bucket) {
    parts_[bucket].gradients = layout_.select(bucket, gradients);
    parts_[bucket].mean = layout_.select(bucket, mean);
  }
  step_ = step;
  next_ = 0;
  is_begun_ = true;
}

void DeviceBucketedAllReduce::submit_bucket(int bucket) {
  TERNGRAD_REQUIRE(is_begun_ && next_ < parts_.size() && static_cast<std::size_t>(bucket) == next_, "[buckets] bucket ",
                   bucket, " is not the next one to exchange");
  // Each bucket waits again, for the work submitted to the stream since the previous bucket.
  if (fork_ != nullptr) {
    is_forked_ = true;
    fork_->begin();
  }
  if (next_ == 0) flags_.begin_step(exchange_stream_);
  Part& part = parts_[next_++];
  PartClock clock(stream_.device(), /*is_on=*/false);
  part.exchange->run(part.gradients, part.mean, step_, exchange_stream_, clock);
}

void DeviceBucketedAllReduce::finish() {
  TERNGRAD_REQUIRE(is_begun_ && next_ == parts_.size(), "[buckets] the step ends with ", next_, " of ", parts_.size(),
                   " buckets exchanged");
  is_begun_ = false;
  if (std::exchange(is_forked_, false)) fork_->join();
  for (const Part& part : parts_) part.exchange->commit(stream_);
}

void DeviceBucketedAllReduce::cancel() noexcept {
  is_begun_ = false;
  if (!std::exchange(is_forked_, false)) return;
  try {
    fork_->join();
  } catch (const Error&) {
    // The device has failed; the next wait for the stream reports it.
  }
}

void DeviceBucketedAllReduce::submit(std::span<const TensorTable> gradients, const TensorTable& mean,
                                     const DeviceStep& step) {
  begin(gradients, mean, step);
  try {
    for (std::size_t bucket = 0; bucket < parts_.size(); ++bucket) submit_bucket(static_cast<int>(bucket));
    finish();
  } catch (...) {
    cancel();
    throw;
  }
}

ExchangeReport DeviceBucketedAllReduce::exchange(std::span<const TensorTable> gradients, const TensorTable& mean,
                                                 std::uint64_t step) {
  begin(gradients, mean, {step, nullptr});
  is_begun_ = false;
  flags_.begin_step(stream_);
  ExchangeReport sum;
  PartClock clock(stream_.device(), /*is_on=*/true);
  for (const Part& part : parts_) {
    part.exchange->run(part.gradients, part.mean, {step, nullptr}, stream_, clock);
    sum.add_part(part.exchange->bytes());
  }
  clock.add_to(sum);
  for (const Part& part : parts_) part.exchange->commit(stream_);
  apply_policy(step, sum);
  return sum;
}

void DeviceBucketedAllReduce::update_memory(MemoryUpdate what, std::span<const TensorTable> encoded,
                                            std::span<const TensorTable> kept) {
  for (std::size_t bucket = 0; bucket < parts_.size(); ++bucket) {
    parts_[bucket].exchange->update_memory(what, layout_.select(bucket, encoded), layout_.select(bucket, kept),
                                           stream_);
  }
}

ExchangeReport DeviceBucketedAllReduce::bytes() const {
  ExchangeReport sum;
  for (const Part& part : parts_) sum.add_part(part.exchange->bytes());
  return sum;
}

ExchangeReport DeviceBucketedAllReduce::report(std::uint64_t step) {
  ExchangeReport result = bytes();
  apply_policy(step, result);
  return result;
}

void DeviceBucketedAllReduce::apply_policy(std::uint64_t step, ExchangeReport& report) {
  flags_.found(stream_).apply_policy(flags_.policy(), layout_.layout(), num_workers_, step, report);
}

float DeviceBucketedAllReduce::decode_local(int local_worker, int segment, std::span<float> out) {
  const BucketedLayout::Place place = layout_.place_of(segment);
  return parts_[place.bucket].exchange->decode_local(local_worker, place.segment, out, stream_);
}

}  // namespace terngrad
