// RecordedPeers: recorded messages of the other processes of an exchange, so that one process can run without them.
#pragma once

#include <cstddef>
#include <cstdint>
#include <functional>
#include <memory>
#include <span>
#include <vector>

#include "compress/comm/communicator.h"

namespace terngrad {

/// One operation of a step, with its results for all ranks.
struct RecordedOperation {
  enum class Kind { kGather, kScatter, kSum };
  Kind kind = Kind::kGather;
  std::vector<Parcels> received = {};    // kGather: one, for all ranks; kScatter: one per rank
  std::vector<std::uint64_t> sums = {};  // kSum: the result
};

/// The operations of a step that sends the same messages each time, in order.
class RecordedPeers {
 public:
  /// Runs a step of one rank on a communicator; called several times per rank. Exceptions are passed on.
  using RunRank = std::function<void(const std::shared_ptr<Communicator>& communicator)>;

  /// Records all operations, by running every rank separately, again and again, up to its first operation whose inputs
  /// are not yet known.
  RecordedPeers(int num_ranks, const RunRank& run_rank);

  int num_ranks() const { return num_ranks_; }
  std::span<const RecordedOperation> operations() const { return operations_; }
  /// Drops messages that were scattered to other ranks.
  void keep_only(int rank);

 private:
  int num_ranks_;
  std::vector<RecordedOperation> operations_;
};

/// A communicator of one rank with recorded peers. It measures the time for delivering their parcels, which stands for
/// the transport. For sums of lanes it adds as many words as a rank does in an all-reduce by shards; this is work of
/// the rank and not part of that time.
class ReplayCommunicator final : public Communicator {
 public:
  /// @param peers  must outlive the communicator
  ReplayCommunicator(const RecordedPeers& peers, int rank) : peers_(peers), rank_(rank) {}

  /// Restarts the step.
  void begin_step() { next_ = 0; }
  /// Total seconds spent delivering parcels.
  double transport_seconds() const { return transport_seconds_; }

  int rank() const override { return rank_; }
  int size() const override { return peers_.num_ranks(); }
  void all_gather(Parcels& mine, Parcels& all) override;
  void all_to_all(std::span<Parcels> outgoing, Parcels& incoming) override;
  void all_reduce_sum(std::span<std::uint64_t> values) override;
  /// @throws InvalidArgument: exchanges with downlink fp32 do not use these operations
  void all_reduce_max(std::span<std::uint32_t> values) override;
  void broadcast(std::span<std::uint8_t> values, int root) override;
  void barrier() override {}

 private:
  const RecordedOperation& next(RecordedOperation::Kind kind);
  void receive(const Parcels& recorded, Parcels& out);

  const RecordedPeers& peers_;
  int rank_;
  std::size_t next_ = 0;
  double transport_seconds_ = 0;
};

}  // namespace terngrad
