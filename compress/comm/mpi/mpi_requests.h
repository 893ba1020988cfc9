// MpiRequests: the messages of one collective operation, and waiting for them with a deadline. Internal.
#pragma once

#include <mpi.h>

#include <cstdint>
#include <initializer_list>
#include <memory>
#include <optional>
#include <span>
#include <vector>

#include "compress/comm/mpi/mpi_group.h"
#include "compress/comm/mpi/peer_liveness.h"
#include "compress/comm/mpi/wait_graph.h"

namespace terngrad {

/// Non-blocking messages to and from other ranks. A peer is silent from when this rank begins to wait for it or heard
/// of it last; a rank that is busy between operations can tell that (MpiGroup::send_heartbeat).
///
/// A rank that waits for a quarter of the timeout tells all others for whom, and those that wait too answer, so that
/// each of them names the ranks that are silent and not those that wait for them in turn. A rank that gives up says so
/// last. A rank whose own messages still flow sends a heartbeat with its answer, so that a slow operation is not taken
/// for a deadlock. A note or heartbeat of a later operation proves that all ranks have arrived at this one. In the
/// usual case, which is an operation that takes less than 1/64 of the timeout, this costs no message. A rank must
/// therefore begin to wait 1/64 of the timeout before others give up, or it may be named.
class MpiRequests {
 public:
  /// What a request is for: the earlier in this list, the more a request that does not end says about its peer.
  enum class Purpose { kHead, kReceive, kAnnouncementSend, kSend };

  /// @param operation  its name in errors; stays
  MpiRequests(MpiGroup& group, const char* operation, std::uint64_t number);
  MpiRequests(const MpiRequests&) = delete;
  MpiRequests& operator=(const MpiRequests&) = delete;
  /// Leaves what is under way to MPI, with all memory that was given to `keep`, and the group is broken then.
  ~MpiRequests();

  /// Memory that is sent from or received into must stay until the request has ended, or to the end of the process.
  void keep(std::shared_ptr<void> memory) { kept_.push_back(std::move(memory)); }
  void send(int peer, std::span<const std::uint8_t> data, int tag, Purpose purpose = Purpose::kSend);
  /// @param purpose  kHead for what is at most of this size, kReceive for what is
  void receive(int peer, std::span<std::uint8_t> data, int tag, Purpose purpose);
  /// Of the last message for kHead from a peer.
  std::size_t received_bytes(int peer) const { return received_bytes_[static_cast<std::size_t>(peer)]; }
  /// `rank` was alive just now.
  void record_activity(int rank) { liveness_.record_activity(rank); }
  /// How many ranks are known to have arrived at this operation, this one, the next and so on: a wait that fails names
  /// those that have not arrived, as well as those whose messages are missing.
  void set_num_arrived(int num_arrived) { num_arrived_ = all_have_arrived_ ? group_.size : num_arrived; }

  /// Waits until no request for one of these purposes is left.
  /// @throws CommunicationError if one cannot end because of ranks that have been silent for the timeout, which it
  /// names
  void await(std::initializer_list<Purpose> purposes);
  /// Tells those that still wait, in this operation or already in the next, that this rank has ended it.
  void tell_that_it_has_ended();

 private:
  struct Request {
    int peer;
    Purpose purpose;
  };
  bool is_waiting_for(std::initializer_list<Purpose> purposes) const;
  bool complete_some();
  void look(PeerLiveness::Clock::time_point now);
  void check_deadline();
  void tell_that_it_waits();
  void hear_who_waits();
  void read_heartbeats();
  /// A rank in a later operation has ended this one, for which all must have arrived.
  void hear_number(std::uint64_t number);
  /// Names the silent ranks, once there is one, or those that this one waits for, if all wait for each other.
  void throw_if_silent();
  /// The ranks that the requests wait for, directly or not, and that do not wait themselves, with what for.
  std::vector<std::optional<Purpose>> find_suspects() const;
  bool is_late(int rank) const { return liveness_.seconds_of_silence(rank) > group_.timeout_seconds; }
  bool is_awaited(int rank) const;
  bool has_arrived(int rank) const { return (rank - group_.rank + group_.size) % group_.size < num_arrived_; }
  double longest_silence() const;

  MpiGroup& group_;
  const char* operation_;
  std::uint64_t number_;
  int num_arrived_;
  PeerLiveness liveness_;
  WaitGraph waits_;
  PeerLiveness::Clock::time_point begin_;
  PeerLiveness::Clock::time_point last_check_;
  bool all_have_arrived_ = false;  // known from a note or heartbeat of a later operation
  bool others_wait_ = false;       // in this operation, the one before or the next
  bool tells_end_ = false;         // others wait in this operation or the next
  bool has_progressed_ = false;    // since it told last that it waits
  int told_target_ = -1;
  PeerLiveness::Clock::time_point last_told_ = {};
  std::vector<std::shared_ptr<void>> kept_;
  std::vector<std::size_t> received_bytes_;  // [size]
  std::vector<MPI_Request> requests_;
  std::vector<Request> requested_;
  std::vector<int> completed_;
  std::vector<MPI_Status> statuses_;
};

}  // namespace terngrad
