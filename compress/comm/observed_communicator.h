// ObservedCommunicator: shows the messages that a process sends.
#pragma once

#include <cstdint>
#include <functional>
#include <memory>
#include <span>
#include <utility>

#include "compress/comm/communicator.h"

namespace terngrad {

/// Forwards to another communicator, and first passes each parcel that this rank sends or gathers to an observer,
/// including parcels that stay in this process. Reductions, broadcasts and barriers have no parcels.
class ObservedCommunicator final : public Communicator {
 public:
  /// @param parcel  8-byte aligned, valid during the call. An exception ends the operation before anything is sent
  using Observer = std::function<void(std::span<const std::uint8_t> parcel)>;

  ObservedCommunicator(std::shared_ptr<Communicator> inner, Observer observer)
      : inner_(std::move(inner)), observer_(std::move(observer)) {}

  int rank() const override { return inner_->rank(); }
  int size() const override { return inner_->size(); }
  bool is_alone() const override { return false; }
  void all_gather(Parcels& mine, Parcels& all) override;
  void all_to_all(std::span<Parcels> outgoing, Parcels& incoming) override;
  void all_reduce_sum(std::span<std::uint64_t> values) override { inner_->all_reduce_sum(values); }
  void all_reduce_max(std::span<std::uint32_t> values) override { inner_->all_reduce_max(values); }
  void broadcast(std::span<std::uint8_t> values, int root) override { inner_->broadcast(values, root); }
  void barrier() override { inner_->barrier(); }
  void send_heartbeat() override { inner_->send_heartbeat(); }
  void set_timeout(double seconds) override { inner_->set_timeout(seconds); }
  void vendor_sum(const FloatSpan& values) override { inner_->vendor_sum(values); }

 private:
  void show(const Parcels& parcels);

  std::shared_ptr<Communicator> inner_;
  Observer observer_;
};

}  // namespace terngrad
