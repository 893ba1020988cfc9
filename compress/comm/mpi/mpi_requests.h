// MpiRequests: the messages of one collective operation, and waiting for them with a timeout. Internal.
#pragma once

#include <mpi.h>

#include <cstdint>
#include <initializer_list>
#include <memory>
#include <span>
#include <vector>

#include "compress/comm/mpi/mpi_group.h"
#include "compress/comm/mpi/peer_liveness.h"

namespace terngrad {

/// Non-blocking messages to and from other ranks. A wait throws if for the timeout neither a message of this operation
/// completes nor a heartbeat (MpiGroup::send_heartbeat) of any rank arrives. The error names the missing ranks; some of
/// these may wait for others in turn and report the same.
class MpiRequests {
 public:
  /// Purpose of a message; `await` waits for all messages with given purposes.
  enum class Purpose { kHead, kReceive, kAnnouncementSend, kSend };

  /// @param operation  name for errors; must stay valid
  MpiRequests(MpiGroup& group, const char* operation, std::uint64_t number);
  MpiRequests(const MpiRequests&) = delete;
  MpiRequests& operator=(const MpiRequests&) = delete;
  /// Leaves pending messages to MPI, with all memory passed to `keep_alive`, and then marks the group as broken.
  ~MpiRequests();

  /// Memory that is sent from or received into must stay valid until the request completes, or after a failure until
  /// the end of the process.
  void keep_alive(std::shared_ptr<void> memory) { kept_.push_back(std::move(memory)); }
  void send(int peer, std::span<const std::uint8_t> data, int tag, Purpose purpose = Purpose::kSend);
  /// @param purpose  kHead if data.size() is a maximum, kReceive if it is exact
  void receive(int peer, std::span<std::uint8_t> data, int tag, Purpose purpose);
  /// Size of the last kHead message from a peer.
  std::size_t received_bytes(int peer) const { return received_bytes_[static_cast<std::size_t>(peer)]; }
  /// Sets how many ranks are known to have arrived at this operation, starting with this one, cyclic.
  void set_num_arrived(int num_arrived) { num_arrived_ = num_arrived; }

  /// Waits until all requests for these purposes have completed.
  /// @throws CommunicationError after the timeout, with the operation, its number and the missing ranks
  void await(std::initializer_list<Purpose> purposes);

 private:
  struct Request {
    int peer;
    Purpose purpose;
  };
  bool is_waiting_for(std::initializer_list<Purpose> purposes) const;
  bool complete_some();
  void check_deadline();
  /// True if a rank has not arrived, or a message to or from it is pending.
  bool is_missed(int rank) const;

  MpiGroup& group_;
  const char* operation_;
  std::uint64_t number_;
  int num_arrived_;
  PeerLiveness silence_;  // a single entry for all ranks
  PeerLiveness::Clock::time_point last_check_;
  std::vector<std::shared_ptr<void>> kept_;
  std::vector<std::size_t> received_bytes_;  // [size]
  std::vector<MPI_Request> requests_;
  std::vector<Request> requested_;
  std::vector<int> completed_;
  std::vector<MPI_Status> statuses_;
};

}  // namespace terngrad
