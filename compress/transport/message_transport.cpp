#include "compress/transport/message_transport.h"

#include <algorithm>
#include <utility>

#include "compress/wire/scaler_messages.h"
#include "kernels/codes/ternary_pack.h"
#include "kernels/runtime/errors.h"

namespace terngrad {
namespace {

/// True if lanes are added. A process that has all workers may only count them, if it knows the bytes of all other
/// payloads without encoding them.
bool adds_lanes(const TransportOptions& options, const CodecPlan& plan, const WorkerGroup& workers) {
  if (options.route.lanes.empty()) return false;
  const auto known = [](const CodecPlan::Group& group) {
    return group.codec->traits().summable || group.codec->traits().fixed_size;
  };
  return !options.is_chosen || workers.communicator->size() > 1 || !std::ranges::all_of(plan.groups(), known);
}

ShardRange own_parts(const TransportOptions& options, const WorkerGroup& workers) {
  if (!options.route.is_scattered) return {0, 1};
  return shards_of(workers, options.owners, workers.communicator->rank());
}

PayloadRows make_rows(const CodecPlan& plan, const WorkerGroup& workers, const GradientTransport& frames,
                      std::vector<std::vector<Slice>> parts, ShardRange own) {
  PayloadRows rows(plan, workers, std::move(parts), PayloadForm::kNatural);
  frames.expect_parts(rows, own.first, own.count);
  return rows;
}

/// Rows of the tensors in lanes, with one incoming payload each, the sum.
PayloadRows make_lane_rows(const CodecPlan& plan, const WorkerGroup& workers, const std::vector<Slice>& lanes) {
  std::vector<std::vector<Slice>> parts;
  if (!lanes.empty()) parts.push_back(lanes);
  const std::size_t num_parts = parts.size();
  PayloadRows rows(plan, workers, std::move(parts), PayloadForm::kLanes);
  rows.aggregate_parts(0, num_parts, std::vector<int>(plan.groups().size(), 1));
  return rows;
}

}  // namespace

MessageTransport::MessageTransport(const Layout& layout, const CodecPlan& plan, const ExchangePeers& peers,
                                   const TransportOptions& options)
    : layout_(layout),
      plan_(plan),
      workers_(peers.group),
      options_(options),
      has_filter_(peers.filter != nullptr),
      nodes_(workers_, options_.owners),
      own_(own_parts(options_, workers_)),
      sums_lanes_(adds_lanes(options_, plan, workers_)),
      frames_(layout, plan, ranks_of(workers_), workers_.communicator->rank()),
      rows_(make_rows(plan, workers_, frames_,
                      sums_lanes_ || options_.route.lanes.empty()
                          ? options_.route.parts
                          : std::vector<std::vector<Slice>>{whole_segments(layout)},
                      own_)),
      lane_rows_(make_lane_rows(plan, workers_, sums_lanes_ ? options_.route.lanes : std::vector<Slice>{})),
      forms_(plan, options_.downlink_codec, workers_.num_workers, mean_travels()) {
  frames_.set_filter(peers.filter);
  outgoing_of_rank_.resize(static_cast<std::size_t>(workers_.communicator->size()));
  if (sums_lanes_) lane_sums_ = Buffer<std::uint64_t>(static_cast<std::int64_t>(lane_rows_.row(0).size()));
  if (forms_.travels()) {
    mean_messages_ = std::make_unique<MeanMessages>(layout, plan, forms_, rows_.parts(), own_);
    return;
  }
  mean_payloads_ = std::make_unique<DownlinkPayloads>(layout, plan, forms_,
                                                      DownlinkPayloads::Options{.ranks = {workers_}}, Device::cpu());
  const DownlinkForms travelling(plan, options_.downlink_codec, workers_.num_workers);
  for (std::size_t shard = 0; options_.route.is_scattered && shard < rows_.parts().size(); ++shard) {
    staying_bytes_.push_back(mean_message_bytes(plan, travelling, rows_.parts()[shard]));
  }
}

bool MessageTransport::mean_travels() const {
  if (!options_.route.is_scattered) return false;
  return sends_messages() || !DownlinkForms(plan_, options_.downlink_codec, workers_.num_workers).has_fixed_size();
}

PayloadSlots& MessageTransport::slots(std::size_t group) {
  PayloadRows& rows = lane_rows_.slots(group).encoded.empty() ? rows_ : lane_rows_;
  return rows.slots(group);
}

std::span<MeanPart> MessageTransport::mean_parts() {
  return mean_messages_ != nullptr ? mean_messages_->parts() : mean_payloads_->parts();
}

void MessageTransport::begin(std::uint64_t step) {
  options_.context.step = step;
  bytes_ = {};
  nodes_.count_nodes(bytes_);
}

void MessageTransport::share_scalers(Coders coders, Stream& /*stream*/) {
  const std::int64_t own = scalers_message_bytes(layout_, plan_);
  nodes_.add_gathered(
      bytes_, &ExchangeBytes::scalers, [own](int) { return own; }, own * workers_.num_workers);
  if (!sends_messages()) return;
  outgoing_.clear();
  const int first = workers_.first_local_worker;
  for (int worker = first; worker < first + workers_.num_local_workers; ++worker) {
    append_scalers(layout_, plan_, coders, worker, options_.context, outgoing_);
  }
  workers_.communicator->all_gather(outgoing_, incoming_);
  if (static_cast<int>(incoming_.count()) != workers_.num_workers) {
    TERNGRAD_THROW(CommunicationError, "[exchange] scalers of ", incoming_.count(), " workers came, expected ",
                   workers_.num_workers);
  }
  for (int worker = 0; worker < workers_.num_workers; ++worker) {
    const bool is_local = worker >= first && worker < first + workers_.num_local_workers;
    if (is_local && !has_filter_) continue;
    const std::span<const std::uint8_t> bytes = incoming_.parcel(static_cast<std::size_t>(worker));
    read_scalers(layout_, plan_, coders, worker, options_.context, bytes, message_);
  }
}

void MessageTransport::move_payloads(Coders coders, Stream& stream) {
  if (options_.route.is_scattered) return scatter(coders, stream);
  gather(coders, stream);
  if (sums_lanes_) sum_lanes(stream);
  if (options_.route.lanes.empty()) return;
  nodes_.add_all_reduce(bytes_, &ExchangeBytes::gradient, lane_bytes(plan_, options_.route.lanes));
}

void MessageTransport::gather(Coders coders, Stream& stream) {
  if (rows_.parts()[0].empty()) return;
  if (sends_messages()) {
    outgoing_.clear();
    frames_.append(rows_, coders, 0, options_.context, outgoing_, stream);
    workers_.communicator->all_gather(outgoing_, incoming_);
    frames_.read(incoming_, rows_, coders, options_.context, stream);
  } else {
    rows_.loop_back();
  }
  const bool only_counts = !sums_lanes_ && !options_.route.lanes.empty();
  const std::int64_t counted = only_counts ? gathered_bytes(plan_, options_.route) : 0;
  const auto bytes_of = [&](int worker) {
    return only_counts ? counted : parcel_bytes(static_cast<std::uint64_t>(frames_.bytes_of(rows_, worker, 0)));
  };
  std::int64_t total = 0;
  for (int worker = 0; worker < workers_.num_workers; ++worker) total += bytes_of(worker);
  const auto own = [&](int local) { return bytes_of(workers_.first_local_worker + local); };
  nodes_.add_gathered(bytes_, &ExchangeBytes::gradient, own, total);
}

void MessageTransport::sum_lanes(Stream& stream) {
  std::span<std::uint64_t> sums = lane_sums_.span();
  const std::span<const std::uint64_t> first = lane_rows_.row(0);
  std::ranges::copy(first, sums.begin());
  for (int local = 1; local < workers_.num_local_workers; ++local) {
    add_lanes(sums, lane_rows_.row(static_cast<std::size_t>(local)), stream);
  }
  workers_.communicator->all_reduce_sum(sums);
  const std::vector<Slice>& slices = lane_rows_.parts()[0];
  std::vector<std::size_t> next(plan_.groups().size(), 0);  // per group: next incoming slot
  for (std::size_t index = 0; index < slices.size(); ++index) {
    if (slices[index].count == 0) continue;
    const auto group = static_cast<std::size_t>(plan_.group_of(slices[index].segment));
    const Codec& codec = *plan_.groups()[group].codec;
    const auto bytes = static_cast<std::size_t>(codec.max_payload_bytes(slices[index], PayloadForm::kLanes));
    const std::span<const std::uint8_t> payload(
        reinterpret_cast<const std::uint8_t*>(sums.data()) + lane_rows_.offset(0, index), bytes);
    codec.check({slices[index], codec.record_format(PayloadForm::kLanes), {}, payload});
    PayloadSlots& slots = lane_rows_.slots(group);
    slots.incoming[next[group]] = payload.data();
    slots.incoming_bytes[next[group]++] = static_cast<std::int64_t>(bytes);
  }
}

void MessageTransport::scatter(Coders coders, Stream& stream) {
  Communicator& communicator = *workers_.communicator;
  if (sends_messages()) {
    for (int rank = 0; rank < communicator.size(); ++rank) {
      Parcels& parcels = outgoing_of_rank_[static_cast<std::size_t>(rank)];
      parcels.clear();
      const ShardRange theirs = shards_of(workers_, options_.owners, rank);
      for (std::size_t shard = theirs.first; shard < theirs.end(); ++shard) {
        frames_.append(rows_, coders, shard, options_.context, parcels, stream);
      }
    }
    communicator.all_to_all(outgoing_of_rank_, incoming_);
    frames_.read(incoming_, rows_, coders, options_.context, stream);
  } else {
    rows_.loop_back();
  }
  for (int local = 0; local < workers_.num_local_workers; ++local) {
    for (std::size_t shard = 0; shard < rows_.parts().size(); ++shard) {
      if (nodes_.keeps(workers_.first_local_worker + local, shard)) continue;
      bytes_.gradient.sent +=
          parcel_bytes(static_cast<std::uint64_t>(rows_.message_bytes(shard, static_cast<std::size_t>(local))));
    }
  }
  for (int worker = 0; worker < workers_.num_workers; ++worker) {
    for (std::size_t shard = own_.first; shard < own_.end(); ++shard) {
      if (nodes_.keeps(worker, shard)) continue;
      const std::int64_t bytes = frames_.bytes_of(rows_, worker, shard - own_.first);
      nodes_.of_owner(bytes_, &ExchangeBytes::gradient).received += parcel_bytes(static_cast<std::uint64_t>(bytes));
    }
  }
}

void MessageTransport::share_maxima(Coders coders, Downlink& downlink, Stream& /*stream*/) {
  if (options_.downlink_codec != DownlinkCodec::kTernary || !options_.route.is_scattered) return;
  std::vector<std::uint32_t> max(static_cast<std::size_t>(plan_.num_scalers()));
  nodes_.add_all_reduce(bytes_, &ExchangeBytes::mean, static_cast<std::int64_t>(4 * max.size()));
  if (mean_messages_ == nullptr) return;
  // On the wire, they are in layout order.
  const auto for_each_tensor = [&](const auto& body) {
    for (std::size_t group = 0; group < coders.size(); ++group) {
      const std::span<std::uint32_t> of_group = downlink.maxima(group);
      if (of_group.empty()) continue;
      for (const int segment : coders[group]->segments()) {
        const auto count = static_cast<std::size_t>(plan_.first_scaler(segment + 1) - plan_.first_scaler(segment));
        if (count == 0) continue;
        const auto first = static_cast<std::size_t>(coders[group]->first_scaler({segment, 0, 0}));
        body(of_group.subspan(first, count),
             std::span(max).subspan(static_cast<std::size_t>(plan_.first_scaler(segment)), count));
      }
    }
  };
  for_each_tensor([](auto of_group, auto on_wire) { std::ranges::copy(of_group, on_wire.begin()); });
  workers_.communicator->all_reduce_max(max);
  for_each_tensor([](auto of_group, auto on_wire) { std::ranges::copy(on_wire, of_group.begin()); });
}

void MessageTransport::begin_mean(const Downlink& downlink) {
  if (mean_messages_ != nullptr) mean_messages_->begin(downlink, options_.context);
}

void MessageTransport::return_mean(const Downlink& downlink, Stream& /*stream*/) {
  if (mean_messages_ != nullptr) mean_messages_->gather(downlink, options_.context, *workers_.communicator);
  for (std::size_t shard = 0; options_.route.is_scattered && shard < rows_.parts().size(); ++shard) {
    const std::int64_t bytes = mean_messages_ != nullptr ? mean_messages_->bytes_of(shard) : staying_bytes_[shard];
    nodes_.add_shard(bytes_, &ExchangeBytes::mean, own_, shard, bytes);
  }
}

Transport::OwnShards MessageTransport::own_shards() const {
  return {own_, std::span(rows_.parts()).subspan(own_.first, own_.count)};
}

void MessageTransport::share_overflow(std::span<std::uint32_t> flags) {
  workers_.communicator->all_reduce_max(flags);
  nodes_.add_all_reduce(bytes_, &ExchangeBytes::mean, static_cast<std::int64_t>(flags.size_bytes()));
}

}  // namespace terngrad
