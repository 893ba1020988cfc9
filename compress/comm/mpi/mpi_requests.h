// MpiRequests: the messages of one collective operation, and waiting for them with a deadline. Internal.
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

/// Non-blocking messages to and from other ranks. A wait ends with an error when neither a message of this operation
/// nor a heartbeat (MpiGroup::send_heartbeat) of any rank has come for the timeout. The error names the ranks that this
/// one misses: some of them may wait for others in turn and report the same.
class MpiRequests {
 public:
  enum class Purpose { kHead, kReceive, kAnnouncementSend, kSend };

  /// @param operation  its name in errors; stays
  MpiRequests(MpiGroup& group, const char* operation, std::uint64_t number);
  MpiRequests(const MpiRequests&) = delete;
  MpiRequests& operator=(const MpiRequests&) = delete;
  /// Leaves what is under way to MPI, with all memory that was given to `keep_alive`, and the group is broken then.
  ~MpiRequests();

  /// Memory that is sent from or received into must stay until the request has ended, or to the end of the process.
  void keep_alive(std::shared_ptr<void> memory) { kept_.push_back(std::move(memory)); }
  void send(int peer, std::span<const std::uint8_t> data, int tag, Purpose purpose = Purpose::kSend);
  /// @param purpose  kHead for what is at most of this size, kReceive for what is
  void receive(int peer, std::span<std::uint8_t> data, int tag, Purpose purpose);
  /// Of the last message for kHead from a peer.
  std::size_t received_bytes(int peer) const { return received_bytes_[static_cast<std::size_t>(peer)]; }
  /// The number of ranks that are known to have arrived at this operation: this one, the next and so on.
  void set_num_arrived(int num_arrived) { num_arrived_ = num_arrived; }

  /// Waits until no request for one of these purposes is left.
  /// @throws CommunicationError after the timeout, with the operation, its number and the ranks that are missed
  void await(std::initializer_list<Purpose> purposes);

 private:
  struct Request {
    int peer;
    Purpose purpose;
  };
  bool is_waiting_for(std::initializer_list<Purpose> purposes) const;
  bool complete_some();
  void check_deadline();
  /// Whether it has not arrived, or a message to or from it is pending.
  bool is_missed(int rank) const;

  MpiGroup& group_;
  const char* operation_;
  std::uint64_t number_;
  int num_arrived_;
  PeerLiveness silence_;  // of all ranks together
  PeerLiveness::Clock::time_point last_check_;
  std::vector<std::shared_ptr<void>> kept_;
  std::vector<std::size_t> received_bytes_;  // [size]
  std::vector<MPI_Request> requests_;
  std::vector<Request> requested_;
  std::vector<int> completed_;
  std::vector<MPI_Status> statuses_;
};

}  // namespace terngrad
