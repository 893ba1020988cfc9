#include "compress/cost/exchange_probe.h"

#include <algorithm>
#include <memory>
#include <utility>
#include <vector>

#include "compress/comm/all_gather_doubles.h"
#include "compress/cost/probe_samples.h"
#include "compress/cost/recorded_peers.h"
#include "compress/exchange/compressed_all_reduce.h"
#include "compress/exchange/round.h"
#include "compress/route/exchange_algorithm.h"
#include "compress/wire/gradient_transport.h"
#include "kernels/runtime/buffer.h"
#include "kernels/runtime/errors.h"

namespace terngrad {
namespace {

/// Number of the repeated step, which keys draws and messages.
constexpr std::uint64_t kStep = 1;

/// The first rank among those with the most workers.
int busiest_rank(const ExchangeWorld& world) {
  int busiest = 0;
  const auto num_local = [&](int rank) {
    return worker_range(world.num_workers, rank, world.num_processes).num_local_workers;
  };
  for (int rank = 1; rank < world.num_processes; ++rank) {
    if (num_local(rank) > num_local(busiest)) busiest = rank;
  }
  return busiest;
}

CodecPlan plan_of(const Layout& layout, int num_workers, const CompressedAllReduceOptions& options) {
  return {layout, with_workers(options.codecs, num_workers)};
}

/// Number of operations of a round without lanes: scalers, gradients, and with scatter_reduce the mean.
std::size_t num_operations(const Route& route) { return route.is_scattered ? 3 : 2; }

/// One process of a run, with recorded peers.
class Process {
 public:
  Process(const Layout& layout, std::span<const float> gradient, const ProbeOptions& options);

  /// Seconds of encoding, checking and decoding in one step.
  ProbeSamples::Parts step();
  /// Bytes and rounds of a step; for low-rank tensors the sum over both exchanges.
  WireVolume wire() const { return wire_; }

 private:
  ExchangeReport run(CompressedAllReduce& exchange, std::span<const TensorTable> gradients) const;
  WireVolume recorded_wire() const;
  MessageSizes sizes_of(const Round& round, std::span<const RecordedOperation> operations) const;
  void run_rank(const std::shared_ptr<Communicator>& communicator);
  std::unique_ptr<CompressedAllReduce> make_exchange(const std::shared_ptr<Communicator>& communicator) const;
  std::vector<TensorTable> gradients_of(int rank) const;

  const Layout& layout_;
  CompressedAllReduceOptions options_;
  ExchangeWorld world_;
  int rank_;
  TensorTable gradient_;
  Buffer<float> mean_values_;
  TensorTable mean_;
  RecordedPeers peers_;
  std::shared_ptr<ReplayCommunicator> communicator_;
  std::unique_ptr<CompressedAllReduce> exchange_;
  std::vector<TensorTable> gradients_;
  WireVolume wire_;
};

Process::Process(const Layout& layout, std::span<const float> gradient, const ProbeOptions& options)
    : layout_(layout),
      options_(options.exchange),
      world_(options.world),
      rank_(busiest_rank(world_)),
      // TensorTable has mutable pointers; exchanges only read gradients.
      gradient_(layout, const_cast<float*>(gradient.data())),
      mean_values_(layout.flat_elements()),
      mean_(layout, mean_values_.data()),
      peers_(world_.num_processes,
             [this](const std::shared_ptr<Communicator>& communicator) { run_rank(communicator); }),
      communicator_(std::make_shared<ReplayCommunicator>(peers_, rank_)),
      exchange_(make_exchange(world_.num_processes > 1 ? std::shared_ptr<Communicator>(communicator_)
                                                       : make_self_communicator())),
      gradients_(gradients_of(rank_)),
      wire_(recorded_wire()) {
  peers_.keep_only(rank_);
}

std::unique_ptr<CompressedAllReduce> Process::make_exchange(const std::shared_ptr<Communicator>& communicator) const {
  return std::make_unique<CompressedAllReduce>(layout_, make_worker_group(world_.num_workers, communicator), options_);
}

/// The exchange of a run's first step, with random factors of low-rank tensors: it is never finished.
ExchangeReport Process::run(CompressedAllReduce& exchange, std::span<const TensorTable> gradients) const {
  exchange.begin(kStep);
  return exchange.exchange(exchange.all_tensors(), gradients, mean_);
}

std::vector<TensorTable> Process::gradients_of(int rank) const {
  const WorkerRange workers = worker_range(world_.num_workers, rank, world_.num_processes);
  return std::vector<TensorTable>(static_cast<std::size_t>(workers.num_local_workers), gradient_);
}

void Process::run_rank(const std::shared_ptr<Communicator>& communicator) {
  run(*make_exchange(communicator), gradients_of(communicator->rank()));
}

ProbeSamples::Parts Process::step() {
  communicator_->begin_step();
  const double transport = communicator_->transport_seconds();
  const ExchangeReport report = run(*exchange_, gradients_);
  const double check_seconds = report.wire_seconds - (communicator_->transport_seconds() - transport);
  return {report.measure_seconds + report.encode_seconds, std::max(check_seconds, 0.0), report.decode_seconds};
}

WireVolume Process::recorded_wire() const {
  WireVolume wire;
  std::span<const RecordedOperation> operations = peers_.operations();
  const std::vector<const Round*> rounds = exchange_->whole().rounds();
  for (std::size_t i = 0; i < rounds.size(); ++i) {
    // A single round has all operations; for low-rank tensors the last operations belong to the second round.
    std::size_t count = operations.size();
    if (i + 1 < rounds.size() && count > 0) count -= num_operations(rounds[i + 1]->route());
    const WireVolume own =
        wire_volume(rounds[i]->route().algorithm, world_, sizes_of(*rounds[i], operations.first(count)));
    wire = {wire.bytes + own.bytes, wire.rounds + own.rounds};
    operations = operations.subspan(count);
  }
  return wire;
}

MessageSizes Process::sizes_of(const Round& round, std::span<const RecordedOperation> operations) const {
  const auto num_shards = static_cast<std::size_t>(world_.num_workers);
  MessageSizes sizes{.shards = std::vector<GradientSizes>(num_shards),
                     .downlink_payloads = std::vector<std::int64_t>(num_shards)};
  if (world_.num_processes == 1) return sizes;
  const auto size_of = [](const Parcels& parcels, std::size_t index) { return parcel_bytes(parcels.sizes()[index]); };
  sizes.scalers = size_of(operations[0].received[0], 0);
  std::vector<WorkerRange> ranks;
  ranks.reserve(static_cast<std::size_t>(world_.num_processes));
  for (int rank = 0; rank < world_.num_processes; ++rank) {
    ranks.push_back(worker_range(world_.num_workers, rank, world_.num_processes));
  }
  const GradientTransport transport(round.layout(), round.plan(), ranks, 0);
  // Sizes of rank 0's messages of one part, beginning with parcel `first`.
  const auto sizes_of_part = [&](const Parcels& parcels, std::span<const Slice> slices, std::size_t& first) {
    const GradientTransport::Counts counts = transport.counts(slices, 0);
    const auto of_workers = static_cast<std::size_t>(counts.of_workers);
    GradientSizes result{.of_worker = counts.of_workers > 0 ? size_of(parcels, first) : 0,
                         .of_sum = counts.of_sums > 0 ? size_of(parcels, first + of_workers) : 0};
    first += of_workers + static_cast<std::size_t>(counts.of_sums);
    return result;
  };
  for (const RecordedOperation& operation : operations.subspan(1)) {
    std::size_t first = 0;
    switch (operation.kind) {
      case RecordedOperation::Kind::kGather:
        if (round.route().is_scattered) {
          for (std::size_t shard = 0; shard < num_shards; ++shard) {
            sizes.downlink_payloads[shard] = size_of(operation.received[0], shard);
          }
        } else {
          sizes.gradient = sizes_of_part(operation.received[0], round.route().parts[0], first);
        }
        break;
      case RecordedOperation::Kind::kScatter:
        for (std::size_t rank = 0; rank < ranks.size(); ++rank) {
          first = 0;
          const auto first_shard = static_cast<std::size_t>(ranks[rank].first_local_worker);
          const auto num_local = static_cast<std::size_t>(ranks[rank].num_local_workers);
          for (std::size_t shard = first_shard; shard < first_shard + num_local; ++shard) {
            sizes.shards[shard] = sizes_of_part(operation.received[rank], round.route().parts[shard], first);
          }
        }
        break;
      case RecordedOperation::Kind::kSum:
        sizes.lanes = static_cast<std::int64_t>(8 * operation.sums.size());
        break;
    }
  }
  return sizes;
}

/// @param slowest  function from this rank's times of a repetition to those of the slowest rank
template <class Slowest>
ExchangeCost probe(const Layout& layout, std::span<const float> gradient, const ProbeOptions& options,
                   const Slowest& slowest) {
  TERNGRAD_REQUIRE(static_cast<std::int64_t>(gradient.size()) == layout.flat_elements(), "[probe_exchange] layout has ",
                   layout.flat_elements(), " elements, the gradient ", gradient.size());
  TERNGRAD_REQUIRE(options.repetitions >= 1, "[probe_exchange] repetitions must be at least 1, got ",
                   options.repetitions);
  TERNGRAD_REQUIRE(options.exchange.downlink_codec == DownlinkCodec::kFloat32,
                   "[probe_exchange] downlink codec must be fp32, got ", word_of(options.exchange.downlink_codec));
  ExchangeCost cost{.codec = options.codec, .exchange = word_of(options.exchange.algorithm)};
  // Refuses unsupported options before any work.
  const auto num_shards = static_cast<std::size_t>(std::max(options.world.num_workers, 1));
  const MessageSizes nothing{.shards = std::vector<GradientSizes>(num_shards),
                             .downlink_payloads = std::vector<std::int64_t>(num_shards)};
  wire_volume(options.exchange.algorithm, options.world, nothing);
  Process process(layout, gradient, options);
  slowest(process.step());
  cost.wire = process.wire();
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
  return choose_algorithm(options.algorithm, options.owners, options.downlink_codec, layout,
                          plan_of(layout, num_workers, options), num_workers);
}

}  // namespace terngrad
