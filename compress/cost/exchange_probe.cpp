#include "compress/cost/exchange_probe.h"

#include <algorithm>
#include <chrono>
#include <utility>
#include <vector>

#include "compress/comm/all_gather_doubles.h"
#include "compress/cost/probe_samples.h"
#include "compress/exchange/codec_shards.h"
#include "compress/exchange/compressed_all_reduce.h"
#include "compress/exchange/downlink.h"
#include "compress/exchange/exchange_bytes.h"
#include "compress/wire/gradient_transport.h"
#include "compress/wire/wire_format.h"
#include "compress/wire/worker_encoder.h"
#include "kernels/codes/ternary_pack.h"
#include "kernels/runtime/buffer.h"
#include "kernels/runtime/errors.h"
#include "kernels/runtime/parallel.h"
#include "kernels/tensor/transform.h"

namespace terngrad {
namespace {

using Bytes = std::span<const std::uint8_t>;

template <class Work>
double seconds_of(const Work& work) {
  const auto begin = std::chrono::steady_clock::now();
  work();
  return std::chrono::duration<double>(std::chrono::steady_clock::now() - begin).count();
}

std::vector<WorkerRange> ranks_of(const ExchangeWorld& world) {
  std::vector<WorkerRange> ranks;
  ranks.reserve(static_cast<std::size_t>(world.num_processes));
  for (int rank = 0; rank < world.num_processes; ++rank) {
    ranks.push_back(worker_range(world.num_workers, rank, world.num_processes));
  }
  return ranks;
}

/// The first of those that have the most workers.
int busiest_rank(const std::vector<WorkerRange>& ranks) {
  return static_cast<int>(std::ranges::max_element(ranks, {}, &WorkerRange::num_local_workers) - ranks.begin());
}

/// What messages hold: everything, the shards, or what does not add up, if there is any, and the lanes of what does.
std::vector<std::vector<Slice>> parts_of(ExchangeAlgorithm algorithm, const Layout& layout, const CodecPlan& plan,
                                         int num_workers) {
  if (algorithm == ExchangeAlgorithm::kScatterReduce) return shards_by_codec(layout, plan, num_workers);
  if (algorithm == ExchangeAlgorithm::kAllGather) return {whole_segments(layout)};
  std::vector<std::vector<Slice>> parts{select_summable(layout, plan, false), select_summable(layout, plan, true)};
  TERNGRAD_REQUIRE(!parts[1].empty(), "[probe_exchange] integer_sum needs codes that add up as integers");
  if (parts[0].empty()) parts.erase(parts.begin());
  return parts;
}

/// A process of a run, with messages of all its peers at hand.
class Process {
 public:
  Process(const Layout& layout, std::span<const float> gradient, const ProbeOptions& options);

  /// Seconds of encoding, checking and decoding in one step.
  ProbeSamples::Parts step();

  bool scatters() const { return exchange_.algorithm == ExchangeAlgorithm::kScatterReduce; }
  /// Then the last part are lanes, which are added up, and the one before it, if there is any, is gathered.
  bool sums() const { return exchange_.algorithm == ExchangeAlgorithm::kIntegerSum; }
  /// Of what was checked last.
  MessageSizes sizes();

 private:
  double encode();
  double check();
  double decode();
  double encode_mean();
  double check_mean();
  bool is_lanes(std::size_t part) const { return sums() && part + 1 == parts_.size(); }
  bool is_own(std::size_t part) const { return part >= first_own_part_ && part < first_own_part_ + num_own_parts_; }
  std::span<const std::vector<Slice>> own_parts() const {
    return std::span(parts_).subspan(first_own_part_, num_own_parts_);
  }
  /// Encodes all parts of a worker of this process, of another those that this one aggregates.
  void encode_parts(int worker, Stream& stream);
  /// Appends what the process of that many workers sends of a part.
  void append_part(GradientTransport& messages, const WorkerRange& workers, std::size_t part, Parcels& out);
  void receive_gradients();
  /// Reads the lanes of a worker of this process and adds them to `words`, which are none before the first.
  void read_lanes(int worker, std::vector<std::uint64_t>& words);
  /// Adds up lanes of this process's workers, and of other processes those that this one sums.
  void sum_lanes();
  void aggregate(std::size_t part);
  void aggregate_lanes();
  void aggregate(const std::vector<Slice>& slices, const std::vector<GradientTransport::Source>& sources);

  const Layout& layout_;
  CompressedAllReduceOptions exchange_;
  ExchangeWorld world_;
  std::vector<WorkerRange> ranks_;
  int rank_;
  WorkerRange local_;
  CodecPlan plan_;
  Stream stream_;
  MessageContext context_{.run_id = 1, .fingerprint = 1, .step = 1};
  TensorTable gradient_;
  std::vector<std::vector<Slice>> parts_;  // parts_of
  std::size_t first_own_part_ = 0;         // of these, which this process aggregates
  std::size_t num_own_parts_ = 1;
  Downlink downlink_;
  GradientTransport transport_;
  std::vector<WorkerEncoder> encoders_;              // [worker]
  std::vector<std::vector<MessageWriter>> writers_;  // [worker][part]
  std::vector<std::vector<Bytes>> messages_;         // [worker][part]
  Parcels outgoing_;                                 // this process's, part after part
  Parcels incoming_;                                 // all processes', of this one's parts
  std::vector<EncodedSlice> by_slice_;
  Message lanes_;                          // of the worker that was read last
  std::vector<std::uint64_t> lane_words_;  // of this process's workers
  std::vector<std::uint64_t> lane_sums_;   // of all workers
  std::vector<float> shared_;
  std::vector<std::uint32_t> max_;
  Buffer<float> mean_values_;
  TensorTable mean_;
  std::vector<MessageWriter> mean_writers_;  // [part]
  std::vector<Bytes> mean_messages_;         // [part]
  std::vector<Message> read_means_;          // [part]
};

Process::Process(const Layout& layout, std::span<const float> gradient, const ProbeOptions& options)
    : layout_(layout),
      exchange_(options.exchange),
      world_(options.world),
      ranks_(ranks_of(world_)),
      rank_(busiest_rank(ranks_)),
      local_(ranks_[static_cast<std::size_t>(rank_)]),
      plan_(layout, with_workers(options.exchange.codecs, options.world.num_workers)),
      stream_(Device::cpu(), options.exchange.num_threads),
      // Tables are of what may be written; encoders read only.
      gradient_(layout, const_cast<float*>(gradient.data())),
      parts_(parts_of(exchange_.algorithm, layout, plan_, world_.num_workers)),
      first_own_part_(scatters() ? static_cast<std::size_t>(local_.first_local_worker) : 0),
      num_own_parts_(scatters() ? static_cast<std::size_t>(local_.num_local_workers)
                                : parts_.size() - (sums() ? 1 : 0)),
      downlink_(layout, plan_, parts_, {DownlinkCodec::kFloat32, world_.num_workers, exchange_.seed}),
      transport_(layout, plan_, ranks_, rank_),
      shared_(static_cast<std::size_t>(plan_.num_scalers())),
      max_(shared_.size()),
      mean_values_(layout.flat_elements()),
      mean_(layout, mean_values_.data()),
      mean_writers_(parts_.size()),
      mean_messages_(parts_.size()),
      read_means_(parts_.size()) {
  std::ranges::fill(mean_values_.span(), 0.0f);
  const auto num_workers = static_cast<std::size_t>(world_.num_workers);
  writers_.resize(num_workers);
  messages_.resize(num_workers);
  encoders_.reserve(num_workers);
  for (int worker = 0; worker < world_.num_workers; ++worker) encoders_.emplace_back(layout_, plan_, worker);
  for (WorkerEncoder& encoder : encoders_) encoder.measure(gradient_, exchange_.seed, context_.step, stream_);
  // All have the same gradient, so what they share is what each has.
  std::ranges::copy(encoders_[0].local_scalers(), shared_.begin());
  receive_gradients();
}

void Process::receive_gradients() {
  for (std::size_t rank = 0; rank < ranks_.size(); ++rank) {
    const WorkerRange& range = ranks_[rank];
    const int end = range.first_local_worker + range.num_local_workers;
    for (int worker = range.first_local_worker; worker < end; ++worker) encode_parts(worker, stream_);
    GradientTransport messages(layout_, plan_, ranks_, static_cast<int>(rank));
    for (std::size_t part = 0; part < parts_.size(); ++part) {
      if (is_own(part)) append_part(messages, range, part, incoming_);
    }
    for (int worker = range.first_local_worker; sums() && worker < end; ++worker) read_lanes(worker, lane_sums_);
    if (static_cast<int>(rank) == rank_) continue;
    for (int worker = range.first_local_worker; worker < end; ++worker) {
      writers_[static_cast<std::size_t>(worker)] = {};  // a process of a run has none of others
    }
  }
}

void Process::encode_parts(int worker, Stream& stream) {
  const auto w = static_cast<std::size_t>(worker);
  const bool is_local =
      worker >= local_.first_local_worker && worker < local_.first_local_worker + local_.num_local_workers;
  writers_[w].resize(parts_.size());
  messages_[w].resize(parts_.size());
  for (std::size_t part = 0; part < parts_.size(); ++part) {
    if (!is_local && !is_own(part) && !is_lanes(part)) continue;
    const PayloadForm form = is_lanes(part) ? PayloadForm::kLanes : PayloadForm::kNatural;
    const WorkerEncoder::GradientPart what{parts_[part], shared_, form, exchange_.seed};
    messages_[w][part] = encoders_[w].gradient_message(gradient_, what, context_, writers_[w][part], stream);
  }
}

void Process::append_part(GradientTransport& messages, const WorkerRange& workers, std::size_t part, Parcels& out) {
  std::vector<Bytes> of_workers;
  const auto first = static_cast<std::size_t>(workers.first_local_worker);
  const std::size_t end = first + static_cast<std::size_t>(workers.num_local_workers);
  of_workers.reserve(end - first);
  for (std::size_t worker = first; worker < end; ++worker) of_workers.push_back(messages_[worker][part]);
  messages.append(of_workers, parts_[part], context_, out, stream_);
}

ProbeSamples::Parts Process::step() {
  // One after the other: what is checked is what was encoded.
  const double encode_seconds = encode() + encode_mean();
  const double check_seconds = check() + check_mean();
  const double decode_seconds = decode();
  return {encode_seconds, check_seconds, decode_seconds};
}

double Process::encode() {
  const int num_local = local_.num_local_workers;
  const int num_threads = stream_.num_threads();
  const auto encode_one = [&](int local, Stream& stream) {
    const int worker = local_.first_local_worker + local;
    encoders_[static_cast<std::size_t>(worker)].measure(gradient_, exchange_.seed, context_.step, stream);
    encode_parts(worker, stream);
  };
  // As the exchange does: one worker after the other, or with many of them side by side. Then as many as run at once
  // stand for all.
  if (num_local < num_threads) return num_local * seconds_of([&] { encode_one(0, stream_); });
  const int rounds = (num_local + num_threads - 1) / num_threads;
  return rounds * seconds_of([&] {
           parallel_for(num_threads, num_threads, 1, [&](std::int64_t begin, std::int64_t end) {
             Stream one(Device::cpu(), 1);
             for (std::int64_t local = begin; local < end; ++local) encode_one(static_cast<int>(local), one);
           });
         });
}

double Process::check() {
  return seconds_of([&] {
    outgoing_.clear();
    for (std::size_t part = 0; part < parts_.size(); ++part) {
      if (!is_lanes(part)) append_part(transport_, local_, part, outgoing_);
    }
    if (num_own_parts_ > 0) transport_.read(incoming_, own_parts(), context_, stream_);
    if (sums()) sum_lanes();
  });
}

void Process::read_lanes(int worker, std::vector<std::uint64_t>& words) {
  read_message(messages_[static_cast<std::size_t>(worker)].back(), MessageKind::kGradient, context_, layout_, lanes_);
  std::size_t word = 0;
  const bool is_first = words.empty();
  for (const Message::Record& record : lanes_.records) {
    const EncodedSlice& encoded = record.encoded;
    plan_.codec_of(encoded.slice.segment).check(encoded);
    const std::span<const std::uint64_t> lanes(reinterpret_cast<const std::uint64_t*>(encoded.payload.data()),
                                               encoded.payload.size() / 8);
    if (is_first) {
      words.insert(words.end(), lanes.begin(), lanes.end());
    } else {
      add_lanes(std::span(words).subspan(word, lanes.size()), lanes);
    }
    word += lanes.size();
  }
}

void Process::sum_lanes() {
  lane_words_.clear();
  const int end = local_.first_local_worker + local_.num_local_workers;
  for (int worker = local_.first_local_worker; worker < end; ++worker) read_lanes(worker, lane_words_);
  // An all-reduce by shards: of each other process what this one sums. Which lanes they are makes no difference.
  const std::size_t own = lane_words_.size() / static_cast<std::size_t>(world_.num_processes);
  for (int peer = 1; peer < world_.num_processes; ++peer) {
    add_lanes(std::span(lane_words_).first(own), std::span<const std::uint64_t>(lane_sums_).first(own));
  }
}

void Process::aggregate_lanes() {
  by_slice_.clear();
  std::vector<GradientTransport::Source> sources;
  std::size_t word = 0;
  for (const Message::Record& record : lanes_.records) {
    EncodedSlice& sum = by_slice_.emplace_back(record.encoded);
    sum.payload = {reinterpret_cast<const std::uint8_t*>(lane_sums_.data() + word), record.encoded.payload.size()};
    word += record.encoded.payload.size() / 8;
    sources.push_back({1, {}});
  }
  aggregate(parts_.back(), sources);
}

void Process::aggregate(std::size_t part) {
  const std::vector<Slice>& slices = parts_[first_own_part_ + part];
  by_slice_.clear();
  std::vector<GradientTransport::Source> sources;
  for (std::size_t r = 0; r < slices.size(); ++r) {
    sources.push_back(transport_.append_slice(part, r, by_slice_));
  }
  aggregate(slices, sources);
}

void Process::aggregate(const std::vector<Slice>& slices, const std::vector<GradientTransport::Source>& sources) {
  for (std::size_t group = 0; group < plan_.groups().size(); ++group) {
    std::vector<AggregateJob> jobs;
    const EncodedSlice* encoded = by_slice_.data();
    for (std::size_t r = 0; r < slices.size(); encoded += sources[r].num_messages, ++r) {
      if (plan_.group_of(slices[r].segment) != static_cast<int>(group) || slices[r].count == 0) continue;
      jobs.push_back({slices[r], {encoded, sources[r].num_messages}, mean_.slice(slices[r]), sources[r].workers});
    }
    if (!jobs.empty()) plan_.groups()[group].codec->aggregate(jobs, AggregateUnit::kMean, stream_);
  }
}

double Process::decode() {
  return seconds_of([&] {
    for (std::size_t part = 0; part < num_own_parts_; ++part) aggregate(part);
    if (sums()) aggregate_lanes();
    if (scatters()) {
      for (std::size_t part = 0; part < parts_.size(); ++part) {
        downlink_.decode(part, read_means_[part], mean_, stream_);
      }
    }
    // Means of other codecs may overflow, and are looked at.
    for (int segment = 0; segment < layout_.num_segments(); ++segment) {
      if (plan_.codec_of(segment).traits().summable) continue;
      const auto count = static_cast<std::size_t>(layout_.segment(segment).num_elements);
      TERNGRAD_REQUIRE(all_finite({mean_.tensor(segment), count}, stream_), "[probe_exchange] the mean is not finite");
    }
  });
}

double Process::encode_mean() {
  const auto encode_part = [&](std::size_t part) {
    mean_messages_[part] =
        downlink_.encode(part, static_cast<int>(part), mean_, shared_, max_, context_, mean_writers_[part], stream_);
  };
  if (!scatters()) return 0;
  for (std::size_t part = 0; part < parts_.size(); ++part) {
    if (!is_own(part) && mean_messages_[part].empty()) encode_part(part);  // its owner's work
  }
  return seconds_of([&] {
    for (std::size_t part = 0; part < num_own_parts_; ++part) encode_part(first_own_part_ + part);
  });
}

double Process::check_mean() {
  if (!scatters()) return 0;
  return seconds_of([&] {
    for (std::size_t part = 0; part < parts_.size(); ++part) {
      read_message(mean_messages_[part], MessageKind::kMean, context_, layout_, read_means_[part]);
    }
  });
}

MessageSizes Process::sizes() {
  MessageWriter writer;
  MessageSizes sizes;
  sizes.scalers = parcel_bytes(encoders_[0].scalers_message(context_, writer).size());
  std::vector<GradientSizes> gradients;
  std::size_t parcel = 0;
  sizes.lanes = static_cast<std::int64_t>(8 * lane_words_.size());
  for (std::size_t part = 0; part < parts_.size(); ++part) {
    if (is_lanes(part)) continue;
    const GradientTransport::Counts counts = transport_.counts(parts_[part], rank_);
    const auto first_size = [&](int count) {
      const auto size = count == 0 ? std::int64_t{0} : parcel_bytes(outgoing_.sizes()[parcel]);
      parcel += static_cast<std::size_t>(count);
      return size;
    };
    const std::int64_t of_worker = first_size(counts.of_workers);
    gradients.push_back({of_worker, first_size(counts.of_sums)});
  }
  if (!scatters()) {
    if (!gradients.empty()) sizes.gradient = gradients[0];
    return sizes;
  }
  sizes.shards = std::move(gradients);
  for (const Bytes& message : mean_messages_) sizes.downlink_payloads.push_back(parcel_bytes(message.size()));
  return sizes;
}

/// @param slowest  from what a repetition took here to what it took the slowest rank
template <class Slowest>
ExchangeCost probe(const Layout& layout, std::span<const float> gradient, const ProbeOptions& options,
                   const Slowest& slowest) {
  TERNGRAD_REQUIRE(static_cast<std::int64_t>(gradient.size()) == layout.flat_elements(), "[probe_exchange] layout has ",
                   layout.flat_elements(), " elements, the gradient ", gradient.size());
  TERNGRAD_REQUIRE(options.repetitions >= 1, "[probe_exchange] repetitions must be at least 1, got ",
                   options.repetitions);
  TERNGRAD_REQUIRE(options.exchange.downlink_codec == DownlinkCodec::kFloat32,
                   "[probe_exchange] downlink codec must be fp32, got ", to_string(options.exchange.downlink_codec));
  ExchangeCost cost{.codec = options.codec, .exchange = to_string(options.exchange.algorithm)};
  // Refuses what it does not know, before any work.
  const auto num_shards = static_cast<std::size_t>(std::max(options.world.num_workers, 1));
  const MessageSizes nothing{.shards = std::vector<GradientSizes>(num_shards),
                             .downlink_payloads = std::vector<std::int64_t>(num_shards)};
  wire_volume(options.exchange.algorithm, options.world, nothing);
  Process process(layout, gradient, options);
  slowest(process.step());
  cost.wire = wire_volume(options.exchange.algorithm, options.world, process.sizes());
  ProbeSamples samples;
  while (samples.count() < options.repetitions &&
         !samples.are_beaten(options.beaten_seconds, cost.link_seconds(options.link))) {
    samples.add(slowest(process.step()));
  }
  const auto [encode, check, decode] = samples.medians();
  cost.encode_seconds = encode;
  cost.check_seconds = check;
  cost.decode_seconds = decode;
  cost.samples = samples.sums();
  cost.moved_bytes = cost.wire.bytes;
  return cost;
}

}  // namespace

ExchangeCost probe_exchange(const Layout& layout, std::span<const float> gradient, const ProbeOptions& options) {
  return probe(layout, gradient, options, [](const ProbeSamples::Parts& own) { return own; });
}

ExchangeCost probe_on_all_ranks(Communicator& communicator, const Layout& layout, std::span<const float> gradient,
                                const ProbeOptions& options) {
  communicator.barrier();
  return probe(layout, gradient, options, [&](const ProbeSamples::Parts& own) {
    const std::vector<double> slowest = max_over_ranks(communicator, own);
    return ProbeSamples::Parts{slowest[0], slowest[1], slowest[2]};
  });
}

ExchangeAlgorithm algorithm_in_use(const Layout& layout, int num_workers, const CompressedAllReduceOptions& options) {
  return CompressedAllReduce(layout, make_worker_group(num_workers, make_self_communicator()), options).algorithm();
}

}  // namespace terngrad
