#include "compress/cost/recorded_peers.h"

#include <algorithm>
#include <chrono>
#include <utility>

#include "kernels/codes/ternary_pack.h"
#include "kernels/runtime/errors.h"

namespace terngrad {
namespace {

using Kind = RecordedOperation::Kind;

/// Data that a rank passes to its first operation that is not recorded yet.
struct HandedOver {
  Kind kind = Kind::kGather;
  std::vector<Parcels> parcels;  // kScatter: one per rank
  std::vector<std::uint64_t> values;
};

/// Thrown to end a rank's run at such an operation.
struct NotKnownYet {};

/// Replays recorded operations, and captures the operation after them.
class CapturingCommunicator final : public Communicator {
 public:
  CapturingCommunicator(const RecordedPeers& peers, int rank)
      : replay_(peers, rank), left_(peers.operations().size()) {}

  HandedOver take() { return std::move(captured_); }

  int rank() const override { return replay_.rank(); }
  int size() const override { return replay_.size(); }
  void all_gather(Parcels& mine, Parcels& all) override {
    if (is_known()) return replay_.all_gather(mine, all);
    captured_.parcels.push_back(std::move(mine));
    capture(Kind::kGather);
  }
  void all_to_all(std::span<Parcels> outgoing, Parcels& incoming) override {
    if (is_known()) return replay_.all_to_all(outgoing, incoming);
    for (Parcels& parcels : outgoing) captured_.parcels.push_back(std::move(parcels));
    capture(Kind::kScatter);
  }
  void all_reduce_sum(std::span<std::uint64_t> values) override {
    if (is_known()) return replay_.all_reduce_sum(values);
    captured_.values.assign(values.begin(), values.end());
    capture(Kind::kSum);
  }
  void all_reduce_max(std::span<std::uint32_t> values) override { replay_.all_reduce_max(values); }
  void broadcast(std::span<std::uint8_t> values, int root) override { replay_.broadcast(values, root); }
  void barrier() override {}

 private:
  bool is_known() { return left_ > 0 && left_-- > 0; }
  [[noreturn]] void capture(Kind kind) {
    captured_.kind = kind;
    throw NotKnownYet{};
  }

  ReplayCommunicator replay_;
  std::size_t left_;  // recorded operations still to replay
  HandedOver captured_;
};

void append_all(const Parcels& from, Parcels& to) {
  for (std::size_t i = 0; i < from.count(); ++i) to.append(from.parcel(i));
}

/// Results of an operation for all ranks, from the data of all ranks.
RecordedOperation deliver(std::vector<HandedOver> ranks) {
  RecordedOperation operation{.kind = ranks[0].kind};
  switch (operation.kind) {
    case Kind::kGather:
      operation.received.resize(1);
      for (const HandedOver& rank : ranks) append_all(rank.parcels[0], operation.received[0]);
      break;
    case Kind::kScatter:
      operation.received.resize(ranks.size());
      for (HandedOver& rank : ranks) {
        for (std::size_t to = 0; to < ranks.size(); ++to) append_all(rank.parcels[to], operation.received[to]);
        rank.parcels.clear();
      }
      break;
    case Kind::kSum:
      operation.sums = std::move(ranks[0].values);
      for (std::size_t rank = 1; rank < ranks.size(); ++rank) add_lanes(operation.sums, ranks[rank].values);
      break;
  }
  return operation;
}

/// Adds the time between its construction and destruction to a sum.
class Lap {
 public:
  explicit Lap(double& seconds) : seconds_(seconds) {}
  ~Lap() { seconds_ += std::chrono::duration<double>(std::chrono::steady_clock::now() - begin_).count(); }
  Lap(const Lap&) = delete;
  Lap& operator=(const Lap&) = delete;

 private:
  double& seconds_;
  std::chrono::steady_clock::time_point begin_ = std::chrono::steady_clock::now();
};

}  // namespace

RecordedPeers::RecordedPeers(int num_ranks, const RunRank& run_rank) : num_ranks_(num_ranks) {
  // A single process sends nothing.
  while (num_ranks > 1) {
    std::vector<HandedOver> captured;
    for (int rank = 0; rank < num_ranks; ++rank) {
      const auto communicator = std::make_shared<CapturingCommunicator>(*this, rank);
      try {
        run_rank(communicator);
      } catch (const NotKnownYet&) {
        captured.push_back(communicator->take());
      }
    }
    if (captured.empty()) return;
    TERNGRAD_REQUIRE(static_cast<int>(captured.size()) == num_ranks, "[recorded peers] only ", captured.size(), " of ",
                     num_ranks, " ranks took part in operation ", operations_.size());
    operations_.push_back(deliver(std::move(captured)));
  }
}

void RecordedPeers::keep_only(int rank) {
  for (RecordedOperation& operation : operations_) {
    if (operation.kind != Kind::kScatter) continue;
    for (std::size_t other = 0; other < operation.received.size(); ++other) {
      if (other != static_cast<std::size_t>(rank)) operation.received[other] = Parcels();
    }
  }
}

const RecordedOperation& ReplayCommunicator::next(Kind kind) {
  TERNGRAD_REQUIRE(next_ < peers_.operations().size() && peers_.operations()[next_].kind == kind,
                   "[recorded peers] operation ", next_, " of the step is not the one that was recorded");
  return peers_.operations()[next_++];
}

void ReplayCommunicator::receive(const Parcels& recorded, Parcels& out) {
  const Lap lap(transport_seconds_);
  out.clear();
  append_all(recorded, out);
}

void ReplayCommunicator::all_gather(Parcels&, Parcels& all) { receive(next(Kind::kGather).received[0], all); }

void ReplayCommunicator::all_to_all(std::span<Parcels>, Parcels& incoming) {
  receive(next(Kind::kScatter).received.at(static_cast<std::size_t>(rank_)), incoming);
}

void ReplayCommunicator::all_reduce_sum(std::span<std::uint64_t> values) {
  const std::vector<std::uint64_t>& sums = next(Kind::kSum).sums;
  TERNGRAD_REQUIRE(sums.size() == values.size(), "[recorded peers] a sum of ", values.size(), " words, recorded are ",
                   sums.size());
  // Adds one shard per other rank, as in an all-reduce by shards; the values added do not matter.
  const std::size_t own = values.size() / static_cast<std::size_t>(size());
  for (int peer = 1; peer < size(); ++peer) {
    add_lanes(values.first(own), std::span<const std::uint64_t>(sums).first(own));
  }
  const Lap lap(transport_seconds_);
  std::ranges::copy(sums, values.begin());
}

void ReplayCommunicator::all_reduce_max(std::span<std::uint32_t>) {
  TERNGRAD_THROW(InvalidArgument, "[recorded peers] all_reduce_max is not recorded");
}

void ReplayCommunicator::broadcast(std::span<std::uint8_t>, int) {
  TERNGRAD_THROW(InvalidArgument, "[recorded peers] broadcast is not recorded");
}

}  // namespace terngrad
