// MeteredCommunicator: counts the bytes that a process exchanges with others.
#pragma once

#include <cstdint>
#include <memory>
#include <span>
#include <utility>

#include "compress/comm/communicator.h"

namespace terngrad {

/// Passes everything on to another communicator and counts what crosses between processes: each copy that goes to a
/// peer or comes from one, parcels with the padding between them. What a rank keeps for itself does not count, nor does
/// what a transport adds (sizes, headers of packets). Reductions count as those by shards:
/// all_reduce_bytes in each direction.
class MeteredCommunicator final : public Communicator {
 public:
  explicit MeteredCommunicator(std::shared_ptr<Communicator> inner) : inner_(std::move(inner)) {}

  std::int64_t sent_bytes() const { return sent_; }
  std::int64_t received_bytes() const { return received_; }
  /// Begins to count anew.
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
