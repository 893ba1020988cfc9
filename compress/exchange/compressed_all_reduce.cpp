#include "compress/exchange/compressed_all_reduce.h"

#include <algorithm>
#include <bit>
#include <chrono>
#include <cstring>

#include "compress/exchange/codec_shards.h"
#include "compress/exchange/overflow.h"
#include "compress/exchange/shard_update.h"
#include "kernels/codes/ternary_pack.h"
#include "kernels/runtime/errors.h"
#include "kernels/runtime/parallel.h"
#include "kernels/statistics/scaler.h"
#include "kernels/tensor/bfloat16.h"

namespace terngrad {
namespace {

/// Adds the time since its construction, or the last call of next, to one part of a report after the other.
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

/// What peers must agree on: the plan, and the options that change the result or who sends what.
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
  // Sums over subtrees say where they begin, not where they end: that follows from the ranks.
  if (GradientTransport(layout, plan, ranks_of(workers), workers.communicator->rank()).adds_any()) {
    hash.add("subtrees").add(static_cast<std::uint64_t>(workers.communicator->size()));
  }
  return hash.value();
}

/// The algorithm in use, kAuto resolved. @throws InvalidArgument for one that these owners cannot do
ExchangeAlgorithm algorithm_for(const CompressedAllReduceOptions& options, const Layout& layout, const CodecPlan& plan,
                                const WorkerGroup& workers) {
  if (options.owners == ShardOwners::kWorkers) {
    TERNGRAD_REQUIRE(workers.num_servers == 0, "[exchange] ", workers.num_servers,
                     " servers, but workers own the shards");
    TERNGRAD_REQUIRE(options.update == nullptr, "[exchange] an update of shards needs servers that own them");
    return choose_algorithm(options.algorithm, options.downlink_codec, layout, plan, workers.num_workers);
  }
  const bool can_update =
      options.downlink_codec == DownlinkCodec::kFloat32 || options.downlink_codec == DownlinkCodec::kBfloat16;
  TERNGRAD_REQUIRE(options.update == nullptr || can_update, "[exchange] what an update makes of the mean travels as ",
                   "fp32 or bf16, not as ", to_string(options.downlink_codec));
  TERNGRAD_REQUIRE(
      options.algorithm == ExchangeAlgorithm::kAuto || options.algorithm == ExchangeAlgorithm::kScatterReduce,
      "[exchange] servers aggregate by scatter_reduce, not by ", to_string(options.algorithm));
  return ExchangeAlgorithm::kScatterReduce;
}

/// Whether auto has chosen integer_sum, though this process has all workers, for the bytes between processes that it
/// emulates. Where integer_sum is asked for by name its lanes are summed in any case: benchmarks measure them.
bool sums_in_process(const CompressedAllReduceOptions& options, ExchangeAlgorithm algorithm, const CodecPlan& plan,
                     const WorkerGroup& workers) {
  if (options.algorithm != ExchangeAlgorithm::kAuto || algorithm != ExchangeAlgorithm::kIntegerSum) return false;
  // Bytes of payloads of no fixed size are known from messages of their own only.
  const auto known = [](const CodecPlan::Group& group) {
    return group.codec->traits().summable || group.codec->traits().fixed_size;
  };
  return workers.communicator->size() == 1 && std::ranges::all_of(plan.groups(), known);
}

/// The shards of scatter_reduce. What an update keeps for a shard lasts longer than a plan, if codecs change from step
/// to step, so its shards depend on the layout alone; and what it sends for them is the bulk of the bytes.
std::vector<std::vector<Slice>> cut_shards(const CompressedAllReduceOptions& options, const Layout& layout,
                                           const CodecPlan& plan, const WorkerGroup& workers) {
  const int count = num_shards(workers, options.owners);
  return options.update != nullptr ? shards(layout, count) : shards_by_codec(layout, plan, count);
}

}  // namespace

CompressedAllReduce::CompressedAllReduce(const Layout& layout, const WorkerGroup& workers,
                                         const CompressedAllReduceOptions& options)
    : CompressedAllReduce(layout, CodecPlan(layout, with_workers(options.codecs, workers.num_workers)), workers,
                          options) {}

CompressedAllReduce::CompressedAllReduce(const Layout& layout, CodecPlan plan, WorkerGroup workers,
                                         const CompressedAllReduceOptions& options)
    : layout_(layout),
      workers_(std::move(workers)),
      options_(options),
      nodes_(workers_, options.owners),
      plan_(std::move(plan)),
      stream_(Device::cpu(), options.num_threads),
      algorithm_(algorithm_for(options, layout_, plan_, workers_)),
      sums_in_process_(sums_in_process(options, algorithm_, plan_, workers_)),
      summed_bytes_(sums_in_process_ ? summed_bytes(layout_, plan_) : SummedBytes{}),
      max_mean_(max_mean(options.mean_factor)),
      context_{options.run_id, exchange_fingerprint(layout_, plan_, workers_, options, algorithm_), 0},
      whole_{{whole_segments(layout_)}, PayloadForm::kNatural},
      shards_{cut_shards(options, layout_, plan_, workers_), PayloadForm::kNatural},
      lanes_{{select_summable(layout_, plan_, true)}, PayloadForm::kLanes},
      rest_{{select_summable(layout_, plan_, false)}, PayloadForm::kNatural},
      whole_downlink_(layout_, plan_, whole_.slices, {options.downlink_codec, workers_.num_workers, options.seed}),
      shard_downlink_(layout_, plan_, shards_.slices, {options.downlink_codec, workers_.num_workers, options.seed}),
      transport_(layout_, plan_, ranks_of(workers_), workers_.communicator->rank()),
      shared_(static_cast<std::size_t>(plan_.num_scalers())),
      max_(static_cast<std::size_t>(plan_.num_scalers())) {
  const auto num_local = static_cast<std::size_t>(workers_.num_local_workers);
  for (int local = 0; local < workers_.num_local_workers; ++local) {
    encoders_.push_back(std::make_unique<WorkerEncoder>(layout_, plan_, workers_.first_local_worker + local));
  }
  writers_.resize(num_local);
  sent_.resize(num_local);
  outgoing_of_rank_.resize(static_cast<std::size_t>(workers_.communicator->size()));
}

CompressedAllReduce::~CompressedAllReduce() = default;

template <class Body>
void CompressedAllReduce::for_each_worker(const Body& body) {
  const int num_local = workers_.num_local_workers;
  if (num_local < stream_.num_threads()) {
    for (int local = 0; local < num_local; ++local) body(static_cast<std::size_t>(local), stream_);
    return;
  }
  parallel_for(stream_.num_threads(), num_local, 1, [&](std::int64_t begin, std::int64_t end) {
    Stream one(Device::cpu(), 1);
    for (std::int64_t local = begin; local < end; ++local) body(static_cast<std::size_t>(local), one);
  });
}

ExchangeReport CompressedAllReduce::exchange(std::span<const TensorTable> gradients, const TensorTable& mean,
                                             std::uint64_t step) {
  NonfiniteTensors found;
  ExchangeReport report = exchange_part(gradients, mean, step, found);
  found.apply_policy(options_.on_nonfinite, step, report);
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
  for (auto& messages : sent_) messages.clear();
  ExchangeReport report;
  nodes_.count_nodes(report);
  PartTimer timer;
  for_each_worker([&](std::size_t local, Stream& stream) {
    encoders_[local]->measure(gradients[local], options_.seed, step, stream);
  });
  timer.next(report.measure_seconds);
  NonfiniteTensors found_here;
  exchange_scalers(report, found_here);
  timer.next(report.wire_seconds);
  if (found_here.has_gradients() && drops_nonfinite()) {
    found.add(found_here);
    return report;
  }
  switch (algorithm_) {
    case ExchangeAlgorithm::kScatterReduce:
      scatter_reduce(gradients, mean, report, found_here);
      break;
    case ExchangeAlgorithm::kIntegerSum:
      sums_in_process_ ? sum_in_process(gradients, mean, report) : integer_sum(gradients, mean, report);
      break;
    default:
      all_gather(gradients, mean, report);
  }
  PartTimer check_timer;
  if (options_.update == nullptr) check_mean(mean, found_here);
  check_timer.next(report.decode_seconds);
  if (!found_here.empty() && drops_nonfinite()) {
    for (auto& messages : sent_) messages.clear();
  }
  found.add(found_here);
  return report;
}

void CompressedAllReduce::exchange_scalers(ExchangeReport& report, NonfiniteTensors& found) {
  outgoing_.clear();
  std::vector<std::int64_t> own;
  for (std::size_t local = 0; local < encoders_.size(); ++local) {
    if (writers_[local].empty()) writers_[local].resize(1);
    const auto message = encoders_[local]->scalers_message(context_, writers_[local][0]);
    own.push_back(parcel_bytes(message.size()));
    outgoing_.append(message);
  }
  workers_.communicator->all_gather(outgoing_, incoming_);
  std::int64_t total = 0;
  for (std::size_t i = 0; i < incoming_.count(); ++i) total += parcel_bytes(incoming_.parcel(i).size());
  nodes_.add_gathered(
      report, &ExchangeBytes::scalers, [&](int local) { return own[static_cast<std::size_t>(local)]; }, total);
  if (static_cast<int>(incoming_.count()) != workers_.num_workers) {
    TERNGRAD_THROW(CommunicationError, "[exchange] scalers of ", incoming_.count(), " workers came, expected ",
                   workers_.num_workers);
  }
  messages_.resize(incoming_.count());
  for (std::size_t i = 0; i < incoming_.count(); ++i) {
    read_message(incoming_.parcel(i), MessageKind::kScalers, context_, layout_, messages_[i]);
    const Message& message = messages_[i];
    bool complete =
        message.worker == static_cast<int>(i) && static_cast<int>(message.records.size()) == layout_.num_segments();
    for (int segment = 0; complete && segment < layout_.num_segments(); ++segment) {
      const Message::Record& record = message.records[static_cast<std::size_t>(segment)];
      const EncodedSlice& encoded = record.encoded;
      complete = encoded.slice == Slice{segment, 0, layout_.segment(segment).num_elements} &&
                 record.codec == plan_.codec_of(segment).wire_id() && encoded.format == 0 && encoded.payload.empty() &&
                 static_cast<std::int64_t>(encoded.scalers.size()) ==
                     plan_.first_scaler(segment + 1) - plan_.first_scaler(segment) &&
                 std::none_of(encoded.scalers.begin(), encoded.scalers.end(), [](float s) { return s < 0; });
    }
    if (!complete) {
      TERNGRAD_THROW(CommunicationError, "[exchange] scaler message ", i, " is not worker ", i, "'s complete list");
    }
  }
  combine_scalers(found);
}

void CompressedAllReduce::combine_scalers(NonfiniteTensors& found) {
  for (int segment = 0; segment < layout_.num_segments(); ++segment) {
    const auto first = static_cast<std::size_t>(plan_.first_scaler(segment));
    const auto count = static_cast<std::size_t>(plan_.first_scaler(segment + 1)) - first;
    const bool mean = plan_.codec_of(segment).sharing() == ScalerSharing::kMean;
    // A greater one than an encoder can send counts as not finite, as NaN does.
    const float most = plan_.codec_of(segment).traits().max_scaler;
    for (const Message& message : messages_) {
      const std::span<const float> local = message.records[static_cast<std::size_t>(segment)].encoded.scalers;
      if (std::all_of(local.begin(), local.end(), [most](float scaler) { return scaler <= most; })) continue;
      found.add_gradient(layout_.segment(segment), message.worker);
    }
    for (std::size_t s = 0; s < count; ++s) {
      float max = 0;
      double sum = 0;
      for (const Message& message : messages_) {
        const float local = message.records[static_cast<std::size_t>(segment)].encoded.scalers[s];
        if (!(local <= most)) continue;  // counts as zero
        max = std::max(max, local);
        sum += static_cast<double>(local);
      }
      const auto average = static_cast<float>(sum / static_cast<double>(workers_.num_workers));
      shared_[first + s] = mean ? average : max;
    }
  }
}

void CompressedAllReduce::encode(std::span<const TensorTable> gradients, const Parts& parts, std::size_t slot) {
  for_each_worker([&](std::size_t local, Stream& stream) {
    const std::size_t num_slots = slot + parts.slices.size();
    if (writers_[local].size() < num_slots) writers_[local].resize(num_slots);
    sent_[local].resize(num_slots);
    for (std::size_t part = 0; part < parts.slices.size(); ++part) {
      const WorkerEncoder::GradientPart what{parts.slices[part], shared_, parts.form, options_.seed};
      const auto message =
          encoders_[local]->gradient_message(gradients[local], what, context_, writers_[local][slot + part], stream);
      if (filter_) filter_(encoders_[local]->worker(), {const_cast<std::uint8_t*>(message.data()), message.size()});
      sent_[local][slot + part] = message;
    }
  });
}

void CompressedAllReduce::append_part(std::size_t slot, std::span<const Slice> slices, Parcels& out) {
  sent_of_part_.clear();
  for (const auto& messages : sent_) sent_of_part_.push_back(messages[slot]);
  transport_.append(sent_of_part_, slices, context_, out, stream_);
}

template <class AppendSlice>
void CompressedAllReduce::aggregate(std::span<const Slice> slices, const AppendSlice& append_slice,
                                    const TensorTable& mean) {
  by_slice_.clear();
  sources_.clear();
  for (std::size_t r = 0; r < slices.size(); ++r) sources_.push_back(append_slice(r, by_slice_));
  for (std::size_t group = 0; group < plan_.groups().size(); ++group) {
    jobs_.clear();
    AggregateUnit unit = AggregateUnit::kMean;
    const EncodedSlice* encoded = by_slice_.data();
    for (std::size_t r = 0; r < slices.size(); encoded += sources_[r].num_messages, ++r) {
      if (plan_.group_of(slices[r].segment) != static_cast<int>(group) || slices[r].count == 0) continue;
      unit = whole_downlink_.unit(slices[r].segment);
      jobs_.push_back({slices[r], {encoded, sources_[r].num_messages}, mean.slice(slices[r]), sources_[r].workers});
    }
    if (unit == AggregateUnit::kSums && options_.downlink_codec == DownlinkCodec::kSums &&
        algorithm_ != ExchangeAlgorithm::kScatterReduce) {
      unit = AggregateUnit::kMean;  // sums that go nowhere: the mean they stand for has the same bits
    }
    if (!jobs_.empty()) plan_.groups()[group].codec->aggregate(jobs_, unit, stream_);
  }
}

void CompressedAllReduce::aggregate_part(std::size_t part, std::span<const Slice> slices, const TensorTable& mean) {
  const auto append_slice = [&](std::size_t index, std::vector<EncodedSlice>& out) {
    return transport_.append_slice(part, index, out);
  };
  aggregate(slices, append_slice, mean);
}

void CompressedAllReduce::apply_downlink(const TensorTable& mean) {
  if (!whole_downlink_.is_lossy()) return;
  if (options_.downlink_codec == DownlinkCodec::kBfloat16) {
    for (int segment = 0; segment < layout_.num_segments(); ++segment) {
      round_to_bfloat16({mean.tensor(segment), static_cast<std::size_t>(layout_.segment(segment).num_elements)},
                        stream_);
    }
    return;
  }
  std::fill(max_.begin(), max_.end(), 0u);
  whole_downlink_.measure(0, mean, max_, stream_);
  const auto bytes = whole_downlink_.encode(0, 0, mean, shared_, max_, context_, mean_writer_, stream_);
  messages_.resize(1);
  read_message(bytes, MessageKind::kMean, context_, layout_, messages_[0]);
  whole_downlink_.decode(0, messages_[0], mean, stream_);
}

void CompressedAllReduce::check_mean(const TensorTable& mean, NonfiniteTensors& found) {
  for (int segment = 0; segment < layout_.num_segments(); ++segment) {
    // Sums of codes are at most N, times a scaler of at most 2^126 over N: a number, though perhaps not its product
    // with a factor above 1. Other means are sums of finite numbers too, but those may leave the range of fp32, or the
    // downlink's rounding that of bfloat16.
    if (plan_.codec_of(segment).traits().summable && options_.mean_factor <= 1) continue;
    const Segment& tensor = layout_.segment(segment);
    const std::span<float> values(mean.tensor(segment), static_cast<std::size_t>(tensor.num_elements));
    if (are_within(values, max_mean_, stream_)) continue;
    found.add_mean(tensor);
    std::fill(values.begin(), values.end(), 0.0f);
  }
}

void CompressedAllReduce::gather_part(const Parts& parts, const TensorTable& mean, ExchangeReport& report) {
  PartTimer timer;
  outgoing_.clear();
  append_part(0, parts.slices[0], outgoing_);
  workers_.communicator->all_gather(outgoing_, incoming_);
  transport_.read(incoming_, parts.slices, context_, stream_);
  std::int64_t total = 0;
  for (int worker = 0; worker < workers_.num_workers; ++worker) {
    total += parcel_bytes(static_cast<std::uint64_t>(transport_.bytes_of(worker, 0)));
  }
  const auto own = [&](int local) { return parcel_bytes(sent_[static_cast<std::size_t>(local)][0].size()); };
  nodes_.add_gathered(report, &ExchangeBytes::gradient, own, total);
  timer.next(report.wire_seconds);
  aggregate_part(0, parts.slices[0], mean);
  timer.next(report.decode_seconds);
}

void CompressedAllReduce::all_gather(std::span<const TensorTable> gradients, const TensorTable& mean,
                                     ExchangeReport& report) {
  PartTimer timer;
  encode(gradients, whole_);
  timer.next(report.encode_seconds);
  gather_part(whole_, mean, report);
  PartTimer decode_timer;
  apply_downlink(mean);
  decode_timer.next(report.decode_seconds);
}

void CompressedAllReduce::scatter_reduce(std::span<const TensorTable> gradients, const TensorTable& mean,
                                         ExchangeReport& report, NonfiniteTensors& found) {
  PartTimer timer;
  encode(gradients, shards_);
  timer.next(report.encode_seconds);
  const ShardRange own = shards_of(workers_, options_.owners, workers_.communicator->rank());
  scatter(own, report);
  timer.next(report.wire_seconds);
  std::fill(max_.begin(), max_.end(), 0u);
  for (std::size_t shard = own.first; shard < own.end(); ++shard) {
    aggregate_part(shard - own.first, shards_.slices[shard], mean);
    if (options_.downlink_codec == DownlinkCodec::kTernary) shard_downlink_.measure(shard, mean, max_, stream_);
  }
  timer.next(report.decode_seconds);
  if (options_.downlink_codec == DownlinkCodec::kTernary) {
    workers_.communicator->all_reduce_max(max_);
    nodes_.add_all_reduce(report, &ExchangeBytes::mean, static_cast<std::int64_t>(4 * max_.size()));
  }
  timer.next(report.wire_seconds);
  const bool is_applied = options_.update == nullptr || update_shards(own, mean, report, found);
  timer.next(report.decode_seconds);
  if (is_applied) return_shards(own, mean, report);
}

void CompressedAllReduce::scatter(const ShardRange& own, ExchangeReport& report) {
  Communicator& communicator = *workers_.communicator;
  for (int rank = 0; rank < communicator.size(); ++rank) {
    Parcels& parcels = outgoing_of_rank_[static_cast<std::size_t>(rank)];
    parcels.clear();
    const ShardRange theirs = shards_of(workers_, options_.owners, rank);
    for (std::size_t shard = theirs.first; shard < theirs.end(); ++shard) {
      append_part(shard, shards_.slices[shard], parcels);
      for (std::size_t local = 0; local < sent_.size(); ++local) {
        const int worker = workers_.first_local_worker + static_cast<int>(local);
        if (!nodes_.keeps(worker, shard)) report.gradient.sent += parcel_bytes(sent_[local][shard].size());
      }
    }
  }
  communicator.all_to_all(outgoing_of_rank_, incoming_);
  transport_.read(incoming_, {shards_.slices.data() + own.first, own.count}, context_, stream_);
  for (int worker = 0; worker < workers_.num_workers; ++worker) {
    for (std::size_t shard = own.first; shard < own.end(); ++shard) {
      if (nodes_.keeps(worker, shard)) continue;
      const std::int64_t bytes = transport_.bytes_of(worker, shard - own.first);
      nodes_.of_owner(report, &ExchangeBytes::gradient).received += parcel_bytes(static_cast<std::uint64_t>(bytes));
    }
  }
}

bool CompressedAllReduce::update_shards(const ShardRange& own, const TensorTable& mean, ExchangeReport& report,
                                        NonfiniteTensors& found) {
  // Before anything is updated all ranks must agree on what overflowed, of which each owner sees its part.
  std::vector<std::uint32_t> overflowed(static_cast<std::size_t>(layout_.num_segments()));
  for (std::size_t shard = own.first; shard < own.end(); ++shard) {
    for (const Slice& slice : shards_.slices[shard]) {
      const std::span<const float> values(mean.slice(slice), static_cast<std::size_t>(slice.count));
      if (!are_within(values, max_mean_, stream_)) overflowed[static_cast<std::size_t>(slice.segment)] = 1;
    }
  }
  workers_.communicator->all_reduce_max(overflowed);
  nodes_.add_all_reduce(report, &ExchangeBytes::mean, static_cast<std::int64_t>(4 * overflowed.size()));
  for (int segment = 0; segment < layout_.num_segments(); ++segment) {
    if (overflowed[static_cast<std::size_t>(segment)] != 0) found.add_mean(layout_.segment(segment));
  }
  if (!found.empty() && drops_nonfinite()) return false;
  for (std::size_t shard = own.first; shard < own.end(); ++shard) {
    for (const Slice& slice : shards_.slices[shard]) {
      if (overflowed[static_cast<std::size_t>(slice.segment)] == 0) continue;
      std::fill_n(mean.slice(slice), slice.count, 0.0f);
    }
    options_.update->update(shard, shards_.slices[shard], mean, context_.step);
  }
  return true;
}

void CompressedAllReduce::return_shards(const ShardRange& own, const TensorTable& mean, ExchangeReport& report) {
  PartTimer timer;
  outgoing_.clear();
  for (std::size_t shard = own.first; shard < own.end(); ++shard) {
    const auto message =
        shard_downlink_.encode(shard, static_cast<int>(shard), mean, shared_, max_, context_, mean_writer_, stream_);
    outgoing_.append(message);
  }
  timer.next(report.encode_seconds);
  workers_.communicator->all_gather(outgoing_, incoming_);
  const std::size_t num_shards = shards_.slices.size();
  if (incoming_.count() != num_shards) {
    TERNGRAD_THROW(CommunicationError, "[exchange] ", incoming_.count(), " aggregated shards came, expected ",
                   num_shards);
  }
  messages_.resize(num_shards);
  for (std::size_t shard = 0; shard < num_shards; ++shard) {
    nodes_.add_shard(report, &ExchangeBytes::mean, own, shard, parcel_bytes(incoming_.parcel(shard).size()));
    read_message(incoming_.parcel(shard), MessageKind::kMean, context_, layout_, messages_[shard]);
    if (messages_[shard].worker != static_cast<int>(shard)) {
      TERNGRAD_THROW(CommunicationError, "[exchange] aggregated shard ", shard, " came from the owner of shard ",
                     messages_[shard].worker);
    }
  }
  timer.next(report.wire_seconds);
  for (std::size_t shard = 0; shard < num_shards; ++shard) {
    shard_downlink_.decode(shard, messages_[shard], mean, stream_);
  }
  timer.next(report.decode_seconds);
}

void CompressedAllReduce::integer_sum(std::span<const TensorTable> gradients, const TensorTable& mean,
                                      ExchangeReport& report) {
  if (!rest_.slices[0].empty()) {
    PartTimer timer;
    encode(gradients, rest_);
    timer.next(report.encode_seconds);
    gather_part(rest_, mean, report);
  }
  PartTimer timer;
  const std::size_t slot = rest_.slices[0].empty() ? 0 : 1;
  encode(gradients, lanes_, slot);
  timer.next(report.encode_seconds);
  // Lanes of this process's workers are added first, then those of all processes.
  const std::vector<Slice>& slices = lanes_.slices[0];
  lane_words_.clear();
  std::vector<Message> local(encoders_.size());
  for (std::size_t w = 0; w < encoders_.size(); ++w) {
    outgoing_.clear();
    outgoing_.append(sent_[w][slot]);
    read_message(outgoing_.parcel(0), MessageKind::kGradient, context_, layout_, local[w]);
    std::size_t word = 0;
    for (std::size_t r = 0; r < slices.size(); ++r) {
      const EncodedSlice& encoded = local[w].records.at(r).encoded;
      plan_.codec_of(slices[r].segment).check(encoded);
      const std::size_t words = encoded.payload.size() / 8;
      if (w == 0) lane_words_.resize(word + words);
      const std::span<const std::uint64_t> lanes(reinterpret_cast<const std::uint64_t*>(encoded.payload.data()), words);
      const std::span<std::uint64_t> sum(lane_words_.data() + word, words);
      if (w == 0) {
        std::copy(lanes.begin(), lanes.end(), sum.begin());
      } else {
        add_lanes(sum, lanes);
      }
      word += words;
    }
  }
  workers_.communicator->all_reduce_sum(lane_words_);
  nodes_.add_all_reduce(report, &ExchangeBytes::gradient, static_cast<std::int64_t>(8 * lane_words_.size()));
  timer.next(report.wire_seconds);
  messages_.resize(1);
  messages_[0] = local[0];  // its slices and shared scalers; the payloads are the sums
  std::size_t word = 0;
  for (std::size_t r = 0; r < slices.size(); ++r) {
    EncodedSlice& encoded = messages_[0].records[r].encoded;
    encoded.scalers = std::span<const float>(shared_).subspan(
        static_cast<std::size_t>(plan_.first_scaler(slices[r].segment)), encoded.scalers.size());
    encoded.payload = {reinterpret_cast<const std::uint8_t*>(lane_words_.data() + word), encoded.payload.size()};
    word += encoded.payload.size() / 8;
    plan_.codec_of(slices[r].segment).check(encoded);
  }
  const auto append_slice = [&](std::size_t index, std::vector<EncodedSlice>& out) -> GradientTransport::Source {
    out.push_back(messages_[0].records[index].encoded);
    return {1, {}};
  };
  aggregate(slices, append_slice, mean);
  apply_downlink(mean);
  timer.next(report.decode_seconds);
}

void CompressedAllReduce::sum_in_process(std::span<const TensorTable> gradients, const TensorTable& mean,
                                         ExchangeReport& report) {
  all_gather(gradients, mean, report);
  report.gradient = {};
  nodes_.add_gathered(
      report, &ExchangeBytes::gradient, [&](int) { return summed_bytes_.gathered; },
      summed_bytes_.gathered * workers_.num_workers);
  nodes_.add_all_reduce(report, &ExchangeBytes::gradient, summed_bytes_.lanes);
}

float CompressedAllReduce::decode_local(int local_worker, int segment, std::span<float> out) {
  TERNGRAD_REQUIRE(local_worker >= 0 && local_worker < workers_.num_local_workers, "[exchange] no local worker ",
                   local_worker);
  TERNGRAD_REQUIRE(segment >= 0 && segment < layout_.num_segments(), "[exchange] no tensor ", segment);
  TERNGRAD_REQUIRE(static_cast<std::int64_t>(out.size()) == layout_.segment(segment).num_elements,
                   "[exchange] tensor '", layout_.segment(segment).name, "' has ",
                   layout_.segment(segment).num_elements, " elements, out holds ", out.size());
  Message message;
  bool found = false;
  float scaler = 0;
  for (const auto bytes : sent_[static_cast<std::size_t>(local_worker)]) {
    read_message(bytes, MessageKind::kGradient, context_, layout_, message);
    for (const Message::Record& record : message.records) {
      if (record.encoded.slice.segment != segment) continue;
      const Codec& codec = plan_.codec_of(segment);
      const auto first = static_cast<std::size_t>(record.encoded.slice.first);
      codec.decode(record.encoded, out.subspan(first, static_cast<std::size_t>(record.encoded.slice.count)));
      for (const float s : record.encoded.scalers) scaler = std::max(scaler, s);
      found = true;
    }
  }
  TERNGRAD_REQUIRE(found || out.empty(), "[exchange] the last step sent nothing of tensor ", segment);
  return scaler;
}

}  // namespace terngrad
