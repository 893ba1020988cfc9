#include "compress/exchange/compressed_all_reduce.h"

#include <utility>

#include "compress/exchange/part_clock.h"
#include "compress/exchange/round.h"
#include "compress/route/downlink_forms.h"

namespace terngrad {

CompressedAllReduce::CompressedAllReduce(const Layout& layout, const ExchangePeers& peers,
                                         const CompressedAllReduceOptions& options)
    : CompressedAllReduce(layout, peers, options, Stream(Device::cpu(), options.num_threads)) {}

CompressedAllReduce::CompressedAllReduce(const Layout& layout, const ExchangePeers& peers,
                                         const CompressedAllReduceOptions& options, const Stream& stream)
    : CompressedAllReduce(layout, CodecPlan(layout, with_workers(options.codecs, peers.group.num_workers)), peers,
                          options, stream) {
  require_downlink(plan(), options.downlink_codec, options.algorithm);
}

CompressedAllReduce::CompressedAllReduce(const Layout& layout, CodecPlan plan, const ExchangePeers& peers,
                                         const CompressedAllReduceOptions& options)
    : CompressedAllReduce(layout, std::move(plan), peers, options, Stream(Device::cpu(), options.num_threads)) {}

CompressedAllReduce::CompressedAllReduce(const Layout& layout, CodecPlan plan, const ExchangePeers& peers,
                                         const CompressedAllReduceOptions& options, const Stream& stream)
    : policy_(options.on_nonfinite),
      num_workers_(peers.group.num_workers),
      stream_(stream),
      flags_(options.on_nonfinite, stream),
      factors_(layout, plan, stream.device()),
      round_(std::make_unique<Round>(layout, std::move(plan), PartContext{peers, options, stream, flags_, factors_},
                                     std::vector<int>{})) {}

CompressedAllReduce::~CompressedAllReduce() = default;

const CodecPlan& CompressedAllReduce::plan() const { return round_->plan(); }

const Layout& CompressedAllReduce::layout() const { return round_->layout(); }

ExchangeAlgorithm CompressedAllReduce::algorithm() const { return round_->route().algorithm; }

void CompressedAllReduce::update_memory(MemoryUpdate what, std::span<const TensorTable> encoded,
                                        std::span<const TensorTable> kept, Stream& stream) {
  round_->update_memory(what, encoded, kept, stream);
}

ExchangeReport CompressedAllReduce::exchange(std::span<const TensorTable> gradients, const TensorTable& mean,
                                             std::uint64_t step) {
  PartClock clock(stream_.device(), /*is_on=*/true);
  flags_.begin_step(stream_);
  round_->run(gradients, mean, {step, nullptr}, stream_, clock);
  ExchangeReport result{round_->bytes()};
  clock.add_to(result);
  flags_.found(stream_).apply_policy(policy_, layout(), num_workers_, step, result);
  return result;
}

float CompressedAllReduce::decode_local(int local_worker, int segment, std::span<float> out) {
  return round_->decode_local(local_worker, segment, out, stream_);
}

void CompressedAllReduce::submit(std::span<const TensorTable> gradients, const TensorTable& mean,
                                 const DeviceStep& step) {
  PartClock clock(stream_.device(), /*is_on=*/false);
  flags_.begin_step(stream_);
  round_->run(gradients, mean, step, stream_, clock);
}

ExchangeReport CompressedAllReduce::report(std::uint64_t step) {
  ExchangeReport result{round_->bytes()};
  flags_.found(stream_).apply_policy(policy_, layout(), num_workers_, step, result);
  return result;
}

}  // namespace terngrad
