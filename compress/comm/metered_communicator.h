// MeteredCommunicator: counts the bytes that a process exchanges with others.
#pragma once

#include <cstdint>
#include <memory>
#include <span>
#include <utility>

#include "compress/comm/communicator.h"

namespace terngrad {

/// Forwards to another communicator and counts the bytes that cross between processes: each copy sent to or received
/// from a peer, parcels with padding. Data that a rank keeps for itself and the transport's overhead (sizes, packet
/// headers) are not counted. A reduction counts as one by shards: all_reduce_bytes in each direction.
class MeteredCommunicator final : public Communicator {
 public:
  explicit MeteredCommunicator(std::shared_ptr<Communicator> inner) : inner_(std::move(inner)) {}

  std::int64_t sent_bytes() const { return sent_; }
  std::int64_t received_bytes() const { return received_; }
  /// Resets both counters.
  void reset() { sent_ = received_ = 0; }

  int rank() const override { return inner_->rank(); }
  int size() const override { return inner_->size(); }
  void all_gather(Parcels& mine, Parcels& all) override;
  void all_to_all(std::span<Parcels> outgoing, Parcels& incoming) override;
  void all_reduce_sum(std::span<std::uint64_t> values) override;
  void all_reduce_max(std::span<std::uint32_t> values) override;
  void broadcast(std::span<std::uint8_t> values, int root) override;
  void barrier() override { inner_->barrier(); }
  void send_heartbeat() override { inner_->send_heartbeat(); }
  void set_timeout(double seconds) override { inner_->set_timeout(seconds); }
  void vendor_sum(const FloatSpan& values) override;

 private:
  void count_reduction(std::size_t num_bytes);

  std::shared_ptr<Communicator> inner_;
  std::int64_t sent_ = 0;
  std::int64_t received_ = 0;
};

}  // namespace terngrad
