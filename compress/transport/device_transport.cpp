#include "compress/transport/device_transport.h"

#include <utility>

#include "compress/route/wire_bytes.h"
#include "kernels/runtime/errors.h"

namespace terngrad {
namespace {

/// Worker range of every rank. @throws InvalidArgument if `own` is not the range of this rank
std::vector<WorkerRange> ranges_of_ranks(const WorkerRange& own, const DeviceCommunicator& communicator) {
  std::vector<WorkerRange> ranks;
  ranks.reserve(static_cast<std::size_t>(communicator.size()));
  for (int rank = 0; rank < communicator.size(); ++rank) {
    ranks.push_back(worker_range(own.num_workers, rank, communicator.size()));
  }
  const WorkerRange& expected = ranks[static_cast<std::size_t>(communicator.rank())];
  TERNGRAD_REQUIRE(own == expected, "[exchange] rank ", communicator.rank(), " of ", communicator.size(), " has ",
                   expected.num_local_workers, " of ", own.num_workers, " workers, from number ",
                   expected.first_local_worker, " on; got ", own.num_local_workers, " from number ",
                   own.first_local_worker, " on");
  return ranks;
}

std::vector<std::unique_ptr<DevicePayloads>> make_payloads(const Route& route, DevicePayloadsSetup setup) {
  std::vector<std::unique_ptr<DevicePayloads>> payloads;
  if (route.is_scattered) {
    payloads.push_back(make_scattered_payloads(setup));
    return payloads;
  }
  if (!route.lanes.empty()) {
    setup.serves = [](const Codec& codec) { return codec.traits().summable; };
    payloads.push_back(make_summed_payloads(setup));
    setup.serves = [](const Codec& codec) { return !codec.traits().summable; };
  }
  payloads.push_back(make_gathered_payloads(setup));
  return payloads;
}

}  // namespace

DeviceTransport::DeviceTransport(const Layout& layout, const CodecPlan& plan, const WorkerRange& workers,
                                 std::shared_ptr<DeviceCommunicator> communicator, const TransportOptions& options,
                                 const Device& device)
    : plan_(plan),
      workers_(workers),
      owners_(options.owners),
      communicator_(std::move(communicator)),
      ranks_(ranges_of_ranks(workers, *communicator_)),
      payloads_(make_payloads(options.route, {.layout = layout,
                                              .plan = plan,
                                              .ranks = ranks_,
                                              .rank = communicator_->rank(),
                                              .owners = options.owners,
                                              .device = device})),
      forms_(plan, options.downlink_codec, workers.num_workers, options.route.is_scattered),
      mean_payloads_(layout, plan, forms_, {.ranks = ranks_, .rank = communicator_->rank(), .owners = options.owners},
                     device) {
  for (const CodecPlan::Group& group : plan.groups()) {
    num_scalers_.push_back(0);
    for (const int segment : group.segments) {
      num_scalers_.back() += group.codec->num_scalers(layout.segment(segment).num_elements);
    }
  }
}

PayloadSlots& DeviceTransport::slots(std::size_t group) {
  for (const auto& payloads : payloads_) {
    if (!payloads->slots(group).encoded.empty()) return payloads->slots(group);
  }
  return payloads_.front()->slots(group);
}

void DeviceTransport::share_scalers(Coders coders, Stream& stream) {
  if (scaler_gathers_.empty()) {
    for (const auto& coder : coders) scaler_gathers_.push_back(coder->gather_scalers(ranks_));
  }
  communicator_->all_gather(scaler_gathers_, stream);
}

void DeviceTransport::move_payloads(Coders /*coders*/, Stream& stream) {
  for (const auto& payloads : payloads_) payloads->submit(*communicator_, stream);
}

void DeviceTransport::share_maxima(Coders coders, Downlink& downlink, Stream& stream) {
  for (std::size_t group = 0; forms_.travels() && group < coders.size(); ++group) {
    const std::span<std::uint32_t> maxima = downlink.maxima(group);
    if (!maxima.empty()) communicator_->all_reduce_max(maxima, stream);
  }
}

void DeviceTransport::return_mean(const Downlink& /*downlink*/, Stream& stream) {
  mean_payloads_.gather(*communicator_, stream);
}

void DeviceTransport::share_overflow(std::span<std::uint32_t> /*flags*/) {
  TERNGRAD_THROW(NotSupported, "[exchange] shards of gradients on GPUs cannot be updated by servers");
}

ExchangeBytes DeviceTransport::bytes() const {
  ExchangeBytes total;
  const WireNodes nodes(workers_, 0, owners_);
  nodes.count_nodes(total);
  for (std::size_t group = 0; group < num_scalers_.size(); ++group) {
    const std::int64_t bytes = 4 * num_scalers_[group];
    nodes.add_gathered(
        total, &ExchangeBytes::scalers, [&](int) { return bytes; }, bytes * workers_.num_workers);
    const bool is_measured = forms_.travels() && forms_.codec() == DownlinkCodec::kTernary &&
                             forms_.unit(plan_.groups()[group].segments.front()) == AggregateUnit::kSums;
    if (is_measured) nodes.add_all_reduce(total, &ExchangeBytes::mean, bytes);
  }
  mean_payloads_.add_bytes(total);
  for (const auto& payloads : payloads_) payloads->add_bytes(total);
  return total;
}

}  // namespace terngrad
