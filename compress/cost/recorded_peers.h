// RecordedPeers: what the other processes of an exchange hand over in a step, so that one can be run without them.
#pragma once

#include <cstddef>
#include <cstdint>
#include <functional>
#include <memory>
#include <span>
#include <vector>

#include "compress/comm/communicator.h"

namespace terngrad {

/// One operation of a step, with what all ranks handed over.
struct RecordedOperation {
  enum class Kind { kGather, kScatter, kSum };
  Kind kind = Kind::kGather;
  std::vector<Parcels> received = {};    // of a gather one for all ranks; of a scatter one for each
  std::vector<std::uint64_t> sums = {};  // of a sum: the result
};

/// The operations of a step that is the same each time, in order.
class RecordedPeers {
 public:
  /// Runs a step of one rank on a communicator; called several times for each rank. What it throws is thrown.
  using RunRank = std::function<void(const std::shared_ptr<Communicator>& communicator)>;

  /// Runs every rank by itself, as far as what is known of the others takes it, until all operations are known.
  RecordedPeers(int num_ranks, const RunRank& run_rank);

  int num_ranks() const { return num_ranks_; }
  std::span<const RecordedOperation> operations() const { return operations_; }
  /// Forgets what was scattered to other ranks.
  void keep_only(int rank);

 private:
  int num_ranks_;
  std::vector<RecordedOperation> operations_;
};

/// A communicator of one rank whose peers are recorded. It measures the time in which it gives their parcels, which is
/// the transport's. Sums of lanes are work of the rank: it adds as many words as a rank does in an all-reduce by
/// shards, which is not in that time.
class ReplayCommunicator final : public Communicator {
 public:
  /// @param peers  must outlive the communicator
  ReplayCommunicator(const RecordedPeers& peers, int rank) : peers_(peers), rank_(rank) {}

  /// Begins the step anew.
  void begin_step() { next_ = 0; }
  /// Seconds since the construction in which parcels changed hands.
  double transport_seconds() const { return transport_seconds_; }

  int rank() const override { return rank_; }
  int size() const override { return peers_.num_ranks(); }
  void all_gather(Parcels& mine, Parcels& all) override;
  void all_to_all(std::span<Parcels> outgoing, Parcels& incoming) override;
  void all_reduce_sum(std::span<std::uint64_t> values) override;
  /// @throws InvalidArgument: exchanges whose downlink is fp32 have no such operations
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
