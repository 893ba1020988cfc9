#include "compress/exchange/compressed_all_reduce.h"

#include <algorithm>
#include <bit>
#include <chrono>

#include "compress/exchange/codec_shards.h"
#include "compress/exchange/overflow.h"
#include "compress/exchange/shard_update.h"
#include "compress/wire/scaler_messages.h"
#include "kernels/codes/ternary_pack.h"
#include "kernels/runtime/errors.h"
#include "kernels/statistics/scaler_sharing.h"

namespace terngrad {
namespace {

/// Adds the time since its construction, or the last call of next, to a field of a report.
class PartTimer {
 public:
  void next(double& part) {
    const auto now = std::chrono::steady_clock::now();
    part += std::chrono::duration<double>(now - begin_).count();
    begin_ = now;
  }

 private:
  std::chrono::steady_clock::time_point begin_ = std::chrono::steady_clock::now();
};

/// Hash of everything that ranks must agree on: the plan, and options that change the result or the messages.
std::uint64_t exchange_fingerprint(const Layout& layout, const CodecPlan& plan, const WorkerGroup& workers,
                                   const CompressedAllReduceOptions& options, ExchangeAlgorithm algorithm) {
  Fingerprint hash;
  hash.add(plan.fingerprint()).add(to_string(options.downlink_codec)).add(to_string(algorithm));
  hash.add(static_cast<std::uint64_t>(options.on_nonfinite)).add(options.seed);
  if (options.mean_factor != 1) hash.add(std::uint64_t{std::bit_cast<std::uint32_t>(options.mean_factor)});
  if (options.owners == ShardOwners::kServers) {
    hash.add(to_string(options.owners)).add(std::uint64_t{options.update != nullptr});
    hash.add(static_cast<std::uint64_t>(workers.num_servers));
  }
  // A message with the sum over a subtree names its first worker only; the subtrees follow from the number of ranks.
  if (GradientTransport(layout, plan, ranks_of(workers), workers.communicator->rank()).adds_any()) {
    hash.add("subtrees").add(static_cast<std::uint64_t>(workers.communicator->size()));
  }
  return hash.value();
}

/// The resolved algorithm. @throws InvalidArgument if the owners do not support the algorithm or the update
ExchangeAlgorithm algorithm_for(const CompressedAllReduceOptions& options, const Layout& layout, const CodecPlan& plan,
                                const WorkerGroup& workers) {
  if (options.owners == ShardOwners::kWorkers) {
    TERNGRAD_REQUIRE(workers.num_servers == 0, "[exchange] ", workers.num_servers,
                     " servers, but workers own the shards");
    TERNGRAD_REQUIRE(options.update == nullptr, "[exchange] an update of shards needs servers that own them");
  }
  const bool can_update =
      options.downlink_codec == DownlinkCodec::kFloat32 || options.downlink_codec == DownlinkCodec::kBfloat16;
  for (const CodecPlan::Group& group : plan.groups()) {
    TERNGRAD_REQUIRE(!group.codec->low_rank(), "[exchange] ", group.spec,
                     " takes two rounds, which BucketedAllReduce and ExchangeParts have");
  }
  if (options.update != nullptr) {
    for (const CodecPlan::Group& group : plan.groups()) {
      TERNGRAD_REQUIRE(group.codec->traits().grain_elements == kChunkElements,
                       "[exchange] shards that are updated are ", "cut anywhere, and the codec ", group.spec,
                       " takes whole tensors or blocks");
    }
  }
  TERNGRAD_REQUIRE(options.update == nullptr || can_update, "[exchange] what an update makes of the mean travels as ",
                   "fp32 or bf16, not as ", to_string(options.downlink_codec));
  return choose_algorithm(options.algorithm, options.owners, options.downlink_codec, layout, plan, workers.num_workers);
}

/// True if kAuto has chosen integer_sum, for the bytes between the processes that this one emulates, though it has all
/// workers: lanes are not summed then. If integer_sum is requested by name lanes are always summed, since benchmarks
/// measure that.
bool sums_in_process(const CompressedAllReduceOptions& options, ExchangeAlgorithm algorithm, const CodecPlan& plan,
                     const WorkerGroup& workers) {
  if (options.algorithm != ExchangeAlgorithm::kAuto || algorithm != ExchangeAlgorithm::kIntegerSum) return false;
  // summed_bytes is exact for these codecs only; other payloads must be encoded to be counted.
  const auto known = [](const CodecPlan::Group& group) {
    return group.codec->traits().summable || group.codec->traits().fixed_size;
  };
  return workers.communicator->size() == 1 && std::ranges::all_of(plan.groups(), known);
}

/// Slices of gradient messages: shards for scatter_reduce, all tensors for all_gather, tensors that cannot be summed
/// for integer_sum. State that an update keeps per shard outlives the plan if codecs change from step to step, so
/// shards for updates depend on the layout alone; most of their bytes are those of the updated values anyway.
std::vector<std::vector<Slice>> parts_of(const CompressedAllReduceOptions& options, const Layout& layout,
                                         const CodecPlan& plan, const WorkerGroup& workers, ExchangeAlgorithm algorithm,
                                         bool sums_lanes) {
  if (algorithm == ExchangeAlgorithm::kScatterReduce) {
    const int count = num_shards(workers, options.owners);
    return options.update != nullptr ? shards(layout, count) : shards_by_codec(layout, plan, count);
  }
  return {sums_lanes ? select_summable(layout, plan, false) : whole_segments(layout)};
}

/// Rows that aggregate this process's own shards for scatter_reduce, else all parts.
PayloadRows make_rows(const CodecPlan& plan, const WorkerGroup& workers, const CompressedAllReduceOptions& options,
                      const GradientTransport& transport, ExchangeAlgorithm algorithm,
                      std::vector<std::vector<Slice>> parts) {
  const ShardRange own = algorithm == ExchangeAlgorithm::kScatterReduce
                             ? shards_of(workers, options.owners, workers.communicator->rank())
                             : ShardRange{0, parts.size()};
  PayloadRows rows(plan, workers, std::move(parts), PayloadForm::kNatural);
  transport.expect_parts(rows, own.first, own.count);
  return rows;
}

/// Rows of the summable tensors, with one incoming payload each, the sum; no tensors if lanes are not summed.
PayloadRows make_lane_rows(const Layout& layout, const CodecPlan& plan, const WorkerGroup& workers, bool sums_lanes) {
  std::vector<std::vector<Slice>> parts;
  if (sums_lanes) parts.push_back(select_summable(layout, plan, true));
  const std::size_t num_parts = parts.size();
  PayloadRows rows(plan, workers, std::move(parts), PayloadForm::kLanes);
  rows.aggregate_parts(0, num_parts, std::vector<int>(plan.groups().size(), 1));
  return rows;
}

}  // namespace

CompressedAllReduce::CompressedAllReduce(const Layout& layout, const WorkerGroup& workers,
                                         const CompressedAllReduceOptions& options)
    : CompressedAllReduce(layout, CodecPlan(layout, with_workers(options.codecs, workers.num_workers)), workers,
                          options) {
  require_downlink(plan_, options.downlink_codec, options.algorithm);
}

CompressedAllReduce::CompressedAllReduce(const Layout& layout, CodecPlan plan, WorkerGroup workers,
                                         const CompressedAllReduceOptions& options, std::vector<int> numbers)
    : layout_(layout),
      workers_(std::move(workers)),
      options_(options),
      nodes_(workers_, options.owners),
      plan_(std::move(plan)),
      stream_(Device::cpu(), options.num_threads),
      algorithm_(algorithm_for(options, layout_, plan_, workers_)),
      sums_lanes_(algorithm_ == ExchangeAlgorithm::kIntegerSum &&
                  !sums_in_process(options, algorithm_, plan_, workers_)),
      summed_bytes_(algorithm_ == ExchangeAlgorithm::kIntegerSum ? summed_bytes(layout_, plan_) : SummedBytes{}),
      max_mean_(max_mean(options.mean_factor)),
      context_{options.run_id, exchange_fingerprint(layout_, plan_, workers_, options, algorithm_), 0},
      transport_(layout_, plan_, ranks_of(workers_), workers_.communicator->rank()),
      rows_(make_rows(plan_, workers_, options, transport_, algorithm_,
                      parts_of(options, layout_, plan_, workers_, algorithm_, sums_lanes_))),
      lane_rows_(make_lane_rows(layout_, plan_, workers_, sums_lanes_)),
      setup_{.layout = layout_,
             .workers = workers_,
             .seed = options.seed,
             .drops_nonfinite_steps = options.on_nonfinite != OnNonfinite::kZero,
             .numbers = std::move(numbers)},
      coders_(make_coders(plan_, setup_, [this](std::size_t group) -> PayloadRows& {
        return lane_rows_.slots(group).encoded.empty() ? rows_ : lane_rows_;
      })),
      mean_check_(setup_, overflowing_tensors(coders_, options.mean_factor), max_mean_) {
  outgoing_of_rank_.resize(static_cast<std::size_t>(workers_.communicator->size()));
  if (sums_lanes_) lane_sums_ = Buffer<std::uint64_t>(static_cast<std::int64_t>(lane_rows_.row(0).size()));
  make_downlink();
}

void CompressedAllReduce::make_downlink() {
  const auto forms = [&](bool travels) {
    return DownlinkForms(plan_, options_.downlink_codec, workers_.num_workers, travels);
  };
  const bool scatters = algorithm_ == ExchangeAlgorithm::kScatterReduce;
  const bool travels = scatters && (sends_messages() || !forms(true).has_fixed_size());
  forms_.emplace(forms(travels));
  mean_messages_ = nullptr;
  mean_payloads_ = nullptr;
  if (travels) {
    const ShardRange own = shards_of(workers_, options_.owners, workers_.communicator->rank());
    mean_messages_ = std::make_unique<MeanMessages>(layout_, plan_, *forms_, rows_.parts(), own);
  } else {
    mean_payloads_ = std::make_unique<DownlinkPayloads>(
        layout_, plan_, *forms_, DownlinkPayloads::Options{.ranks = {workers_}}, Device::cpu());
  }
  downlink_ = std::make_unique<Downlink>(setup_, plan_, coders_, *forms_,
                                         travels ? mean_messages_->parts() : mean_payloads_->parts(), travels);
}

CompressedAllReduce::~CompressedAllReduce() = default;

ExchangeReport CompressedAllReduce::exchange(std::span<const TensorTable> gradients, const TensorTable& mean,
                                             std::uint64_t step) {
  NonfiniteTensors found;
  ExchangeReport report = exchange_part(gradients, mean, step, found);
  found.apply_policy(options_.on_nonfinite, layout_, workers_.num_workers, step, report);
  return report;
}

ExchangeReport CompressedAllReduce::exchange_part(std::span<const TensorTable> gradients, const TensorTable& mean,
                                                  std::uint64_t step, NonfiniteTensors& found) {
  TERNGRAD_REQUIRE(static_cast<int>(gradients.size()) == workers_.num_local_workers, "[exchange] this process has ",
                   workers_.num_local_workers, " workers, got ", gradients.size(), " gradients");
  TERNGRAD_REQUIRE(mean.type() == ElementType::kFloat32, "[exchange] the mean is written as fp32, got a table of ",
                   element_type_name(mean.type()));
  TERNGRAD_REQUIRE(step >> 40 == 0, "[exchange] draws are keyed by 40 bits of the step, got ", step);
  context_.step = step;
  has_sent_ = false;
  const DeviceStep draws{step, nullptr};
  ExchangeReport report;
  nodes_.count_nodes(report);
  PartTimer timer;
  for (const auto& coder : coders_) coder->measure(gradients, draws, stream_);
  timer.next(report.measure_seconds);
  NonfiniteTensors found_here;
  exchange_scalers(report);
  combine_scalers(found_here);
  timer.next(report.wire_seconds);
  if (found_here.gradients.count > 0 && drops_nonfinite()) {
    found += found_here;
    return report;
  }
  for (const auto& coder : coders_) coder->encode(gradients, draws, stream_);
  timer.next(report.encode_seconds);
  if (algorithm_ == ExchangeAlgorithm::kScatterReduce) {
    const ShardRange own = shards_of(workers_, options_.owners, workers_.communicator->rank());
    scatter(own, report);
    timer.next(report.wire_seconds);
    aggregate(mean);
    timer.next(report.decode_seconds);
    exchange_mean(own, mean, report, found_here);
  } else {
    gather(report);
    if (sums_lanes_) sum_lanes(report);
    timer.next(report.wire_seconds);
    aggregate(mean);
    apply_downlink(mean);
    timer.next(report.decode_seconds);
  }
  PartTimer check_timer;
  if (options_.update == nullptr) {
    finish(mean, whole_segments(layout_));
    mean_check_.submit(mean, {.report = &found_here.means}, stream_);
  }
  check_timer.next(report.decode_seconds);
  has_sent_ = found_here.empty() || !drops_nonfinite();
  found += found_here;
  return report;
}

void CompressedAllReduce::set_message_filter(GradientTransport::MessageFilter filter) {
  has_filter_ = filter != nullptr;
  transport_.set_filter(std::move(filter));
  make_downlink();
}

void CompressedAllReduce::exchange_scalers(ExchangeReport& report) {
  const std::int64_t own = scalers_message_bytes(layout_, plan_);
  nodes_.add_gathered(
      report, &ExchangeBytes::scalers, [own](int) { return own; }, own * workers_.num_workers);
  if (!sends_messages()) return;
  outgoing_.clear();
  const int first = workers_.first_local_worker;
  for (int worker = first; worker < first + workers_.num_local_workers; ++worker) {
    append_scalers(layout_, plan_, coders_, worker, context_, outgoing_);
  }
  workers_.communicator->all_gather(outgoing_, incoming_);
  if (static_cast<int>(incoming_.count()) != workers_.num_workers) {
    TERNGRAD_THROW(CommunicationError, "[exchange] scalers of ", incoming_.count(), " workers came, expected ",
                   workers_.num_workers);
  }
  messages_.resize(1);
  for (int worker = 0; worker < workers_.num_workers; ++worker) {
    const bool is_local = worker >= first && worker < first + workers_.num_local_workers;
    if (is_local && !has_filter_) continue;
    const std::span<const std::uint8_t> bytes = incoming_.parcel(static_cast<std::size_t>(worker));
    read_scalers(layout_, plan_, coders_, worker, context_, bytes, messages_[0]);
  }
}

void CompressedAllReduce::combine_scalers(NonfiniteTensors& found) {
  for (const auto& coder : coders_) coder->combine_scalers(&found.gradients, nullptr, nullptr, stream_);
}

void CompressedAllReduce::gather(ExchangeReport& report) {
  if (rows_.parts()[0].empty()) return;
  if (sends_messages()) {
    outgoing_.clear();
    transport_.append(rows_, coders_, 0, context_, outgoing_, stream_);
    workers_.communicator->all_gather(outgoing_, incoming_);
    transport_.read(incoming_, rows_, coders_, context_, stream_);
  } else {
    rows_.loop_back();
  }
  const bool is_summed = algorithm_ == ExchangeAlgorithm::kIntegerSum && !sums_lanes_;
  const auto bytes_of = [&](int worker) {
    // If lanes are not summed in this process, the bytes of integer_sum are counted all the same.
    return is_summed ? summed_bytes_.gathered
                     : parcel_bytes(static_cast<std::uint64_t>(transport_.bytes_of(rows_, worker, 0)));
  };
  std::int64_t total = 0;
  for (int worker = 0; worker < workers_.num_workers; ++worker) total += bytes_of(worker);
  const auto own = [&](int local) { return bytes_of(workers_.first_local_worker + local); };
  nodes_.add_gathered(report, &ExchangeBytes::gradient, own, total);
  if (is_summed) nodes_.add_all_reduce(report, &ExchangeBytes::gradient, summed_bytes_.lanes);
}

void CompressedAllReduce::sum_lanes(ExchangeReport& report) {
  std::span<std::uint64_t> sums = lane_sums_.span();
  const std::span<const std::uint64_t> first = lane_rows_.row(0);
  std::ranges::copy(first, sums.begin());
  for (int local = 1; local < workers_.num_local_workers; ++local) {
    add_lanes(sums, lane_rows_.row(static_cast<std::size_t>(local)), stream_);
  }
  workers_.communicator->all_reduce_sum(sums);
  nodes_.add_all_reduce(report, &ExchangeBytes::gradient, static_cast<std::int64_t>(sums.size_bytes()));
  const std::vector<Slice>& slices = lane_rows_.parts()[0];
  std::vector<std::size_t> next(coders_.size(), 0);  // per group: next incoming slot
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

void CompressedAllReduce::aggregate(const TensorTable& mean) {
  for (std::size_t group = 0; group < coders_.size(); ++group) {
    coders_[group]->aggregate(mean, forms_->unit(plan_.groups()[group].segments.front()), stream_);
  }
}

void CompressedAllReduce::apply_downlink(const TensorTable& mean) {
  downlink_->measure(mean, stream_);
  downlink_->scale(stream_);
  downlink_->encode(mean, {context_.step, nullptr}, stream_);
  downlink_->decode(mean, stream_);
}

void CompressedAllReduce::finish(const TensorTable& mean, std::span<const Slice> slices) {
  for (const auto& coder : coders_) coder->finish(mean, slices, {context_.step, nullptr}, stream_);
}

void CompressedAllReduce::scatter(const ShardRange& own, ExchangeReport& report) {
  Communicator& communicator = *workers_.communicator;
  if (sends_messages()) {
    for (int rank = 0; rank < communicator.size(); ++rank) {
      Parcels& parcels = outgoing_of_rank_[static_cast<std::size_t>(rank)];
      parcels.clear();
      const ShardRange theirs = shards_of(workers_, options_.owners, rank);
      for (std::size_t shard = theirs.first; shard < theirs.end(); ++shard) {
        transport_.append(rows_, coders_, shard, context_, parcels, stream_);
      }
    }
    communicator.all_to_all(outgoing_of_rank_, incoming_);
    transport_.read(incoming_, rows_, coders_, context_, stream_);
  } else {
    rows_.loop_back();
  }
  for (int local = 0; local < workers_.num_local_workers; ++local) {
    for (std::size_t shard = 0; shard < rows_.parts().size(); ++shard) {
      if (nodes_.keeps(workers_.first_local_worker + local, shard)) continue;
      report.gradient.sent +=
          parcel_bytes(static_cast<std::uint64_t>(rows_.message_bytes(shard, static_cast<std::size_t>(local))));
    }
  }
  for (int worker = 0; worker < workers_.num_workers; ++worker) {
    for (std::size_t shard = own.first; shard < own.end(); ++shard) {
      if (nodes_.keeps(worker, shard)) continue;
      const std::int64_t bytes = transport_.bytes_of(rows_, worker, shard - own.first);
      nodes_.of_owner(report, &ExchangeBytes::gradient).received += parcel_bytes(static_cast<std::uint64_t>(bytes));
    }
  }
}

void CompressedAllReduce::exchange_mean(const ShardRange& own, const TensorTable& mean, ExchangeReport& report,
                                        NonfiniteTensors& found) {
  PartTimer timer;
  if (options_.downlink_codec == DownlinkCodec::kTernary) share_maxima(mean, report);
  const bool is_applied = options_.update == nullptr || update_shards(own, mean, report, found);
  timer.next(report.decode_seconds);
  if (!is_applied) return;
  if (returns_messages()) return return_shards(own, mean, report);
  apply_downlink(mean);
  const DownlinkForms travelling(plan_, options_.downlink_codec, workers_.num_workers);
  for (std::size_t shard = 0; shard < rows_.parts().size(); ++shard) {
    nodes_.add_shard(report, &ExchangeBytes::mean, own, shard,
                     mean_message_bytes(plan_, travelling, rows_.parts()[shard]));
  }
  timer.next(report.decode_seconds);
}

void CompressedAllReduce::share_maxima(const TensorTable& mean, ExchangeReport& report) {
  PartTimer timer;
  std::vector<std::uint32_t> max(static_cast<std::size_t>(plan_.num_scalers()));
  nodes_.add_all_reduce(report, &ExchangeBytes::mean, static_cast<std::int64_t>(4 * max.size()));
  if (!returns_messages()) return;
  downlink_->measure(mean, stream_);
  // On the wire, they are in layout order.
  const auto for_each_tensor = [&](const auto& body) {
    for (std::size_t group = 0; group < coders_.size(); ++group) {
      const std::span<std::uint32_t> of_group = downlink_->maxima(group);
      if (of_group.empty()) continue;
      for (const int segment : plan_.groups()[group].segments) {
        const auto count = static_cast<std::size_t>(plan_.first_scaler(segment + 1) - plan_.first_scaler(segment));
        if (count == 0) continue;
        const auto first = static_cast<std::size_t>(coders_[group]->first_scaler({segment, 0, 0}));
        body(of_group.subspan(first, count),
             std::span(max).subspan(static_cast<std::size_t>(plan_.first_scaler(segment)), count));
      }
    }
  };
  for_each_tensor([](auto of_group, auto on_wire) { std::ranges::copy(of_group, on_wire.begin()); });
  timer.next(report.decode_seconds);
  workers_.communicator->all_reduce_max(max);
  for_each_tensor([](auto of_group, auto on_wire) { std::ranges::copy(on_wire, of_group.begin()); });
  downlink_->scale(stream_);
  timer.next(report.wire_seconds);
}

bool CompressedAllReduce::update_shards(const ShardRange& own, const TensorTable& mean, ExchangeReport& report,
                                        NonfiniteTensors& found) {
  // Each owner sees overflow in its own shards only, so all ranks must agree before anything is updated.
  std::vector<std::uint32_t> overflowed(static_cast<std::size_t>(layout_.num_segments()));
  for (std::size_t shard = own.first; shard < own.end(); ++shard) {
    finish(mean, rows_.parts()[shard]);
    for (const Slice& slice : rows_.parts()[shard]) {
      const std::span<const float> values(mean.slice(slice), static_cast<std::size_t>(slice.count));
      if (!are_within(values, max_mean_, stream_)) overflowed[static_cast<std::size_t>(slice.segment)] = 1;
    }
  }
  workers_.communicator->all_reduce_max(overflowed);
  nodes_.add_all_reduce(report, &ExchangeBytes::mean, static_cast<std::int64_t>(4 * overflowed.size()));
  for (int segment = 0; segment < layout_.num_segments(); ++segment) {
    if (overflowed[static_cast<std::size_t>(segment)] == 0) continue;
    found.add_mean(static_cast<int>(setup_.number_of(segment)));
  }
  if (!found.empty() && drops_nonfinite()) return false;
  for (std::size_t shard = own.first; shard < own.end(); ++shard) {
    for (const Slice& slice : rows_.parts()[shard]) {
      if (overflowed[static_cast<std::size_t>(slice.segment)] == 0) continue;
      std::fill_n(mean.slice(slice), slice.count, 0.0f);
    }
    options_.update->update(shard, rows_.parts()[shard], mean, context_.step);
  }
  return true;
}

void CompressedAllReduce::return_shards(const ShardRange& own, const TensorTable& mean, ExchangeReport& report) {
  PartTimer timer;
  mean_messages_->begin(*downlink_, context_);
  downlink_->encode(mean, {context_.step, nullptr}, stream_);
  timer.next(report.encode_seconds);
  mean_messages_->gather(*downlink_, context_, *workers_.communicator);
  for (std::size_t shard = 0; shard < rows_.parts().size(); ++shard) {
    nodes_.add_shard(report, &ExchangeBytes::mean, own, shard, mean_messages_->bytes_of(shard));
  }
  timer.next(report.wire_seconds);
  downlink_->decode(mean, stream_);
  timer.next(report.decode_seconds);
}

float CompressedAllReduce::decode_local(int local_worker, int segment, std::span<float> out) {
  TERNGRAD_REQUIRE(local_worker >= 0 && local_worker < workers_.num_local_workers, "[exchange] no local worker ",
                   local_worker);
  TERNGRAD_REQUIRE(segment >= 0 && segment < layout_.num_segments(), "[exchange] no tensor ", segment);
  TERNGRAD_REQUIRE(static_cast<std::int64_t>(out.size()) == layout_.segment(segment).num_elements,
                   "[exchange] tensor '", layout_.segment(segment).name, "' has ",
                   layout_.segment(segment).num_elements, " elements, out holds ", out.size());
  TERNGRAD_REQUIRE(has_sent_ || out.empty(), "[exchange] the last step sent nothing of tensor ", segment);
  if (out.empty()) return 0;
  const auto group = static_cast<std::size_t>(plan_.group_of(segment));
  const Codec& codec = *plan_.groups()[group].codec;
  const Coder& coder = *coders_[group];
  float max = 0;
  for (std::size_t i = 0; i < coder.slots().encoded.size(); ++i) {
    const Slice& slice = coder.slots().encoded[i];
    if (slice.segment != segment) continue;
    const EncodedSlice sent = coder.sent_slice(i, static_cast<std::size_t>(local_worker));
    codec.decode(sent, out.subspan(static_cast<std::size_t>(slice.first), static_cast<std::size_t>(slice.count)));
    for (const float scaler : sent.scalers) max = std::max(max, scaler);
  }
  return max;
}

void CompressedAllReduce::update_memory(MemoryUpdate what, std::span<const TensorTable> encoded,
                                        std::span<const TensorTable> kept) {
  TERNGRAD_REQUIRE(has_sent_, "[exchange] the last step sent nothing that could be kept");
  for (const auto& coder : coders_) {
    coder->update_memory(what, encoded, kept, nullptr, stream_);
  }
}

}  // namespace terngrad
