// MpiOperation: one collective operation as messages between pairs of ranks, with a deadline. Internal.
#pragma once

#include <mpi.h>

#include <cstdint>
#include <functional>
#include <memory>
#include <span>
#include <string>
#include <vector>

#include "compress/comm/mpi/mpi_group.h"
#include "compress/comm/mpi/operation_header.h"
#include "compress/comm/mpi/peer_liveness.h"

namespace terngrad {

/// Of the messages with which operations begin.
inline constexpr int kMpiHeadTag = 1;

enum class MpiOperationKind : std::uint32_t { kAllGather, kAllToAll, kSum, kMax, kBroadcast, kBarrier };

/// Every rank sends something, if only nothing, to every other one:
///   MpiOperation operation(group, kind);
///   operation.send(peer, sizes, data);      // for each peer
///   operation.await_heads();              // what comes is then known
///   operation.receive(peer, data);          // for each peer
///   operation.finish();
/// Each message begins with a head of at most a fixed size: an OperationHeader, which says the operation's number and
/// kind and how much follows, and that if it fits: a small operation costs one message to each peer. Sizes and data
/// that do not fit follow in messages of their own. Memory that was passed in must stay until finish; after a failure,
/// which leaves messages under way, to the end of the process, which should come soon: MPI may still read and write it.
/// What is given to `keep` does.
///
/// A rank that waits for long tells the others that it does, so that a rank that waits for it in turn does not name it
/// but the one that is silent. One that is busy between operations can tell that (MpiGroup::send_heartbeat): a sign of
/// life.
class MpiOperation {
 public:
  MpiOperation(MpiGroup& group, MpiOperationKind kind);
  MpiOperation(const MpiOperation&) = delete;
  MpiOperation& operator=(const MpiOperation&) = delete;
  /// After a failure, gives up what was not received yet.
  ~MpiOperation();

  void send(int peer, std::span<const std::uint64_t> sizes, std::span<const std::uint8_t> data);
  /// @throws CommunicationError if a peer is silent for too long or in another operation
  void await_heads();
  /// What a peer has sent along with its data.
  std::span<const std::uint64_t> sizes(int peer) const { return places_[index(peer)].sizes; }
  std::size_t data_bytes(int peer) const { return places_[index(peer)].header.data_bytes; }
  /// @throws CommunicationError unless the peer's sizes are those of parcels that make up its data
  void require_parcels(int peer) const;
  /// Takes a share in memory that is received into or sent from, so that it stays for as long as MPI may use it.
  void keep(std::shared_ptr<void> memory) { kept_.push_back(std::move(memory)); }
  /// @param data  [data_bytes(peer)] filled when finish returns
  void receive(int peer, std::span<std::uint8_t> data);
  void finish();

 private:
  static constexpr std::size_t kHeadBytes = 4096;
  /// What a request is for: the earlier in this list, the more a request that does not end says about its peer.
  enum class Purpose { kHead, kReceive, kSend };
  struct Request {
    int peer;
    Purpose purpose;
  };
  struct Place {  // of one peer
    std::vector<std::uint8_t> sent_head;
    std::vector<std::uint8_t> head;
    std::size_t head_bytes = 0;  // that came
    OperationHeader header;
    std::vector<std::uint64_t> sizes;
    std::size_t data_in_head = 0;  // where the data begin, 0 if they come by themselves
    bool waits_itself = false;
  };
  static std::size_t index(int peer) { return static_cast<std::size_t>(peer); }
  const char* name() const;
  void post_send(int peer, std::span<const std::uint8_t> data, int tag, Purpose purpose);
  void post_receive(int peer, std::span<std::uint8_t> data, int tag, Purpose purpose);
  /// Reads a head that has come. @returns whether sizes come by themselves
  bool read_head(int peer);
  void require_sound(int peer) const;
  /// Compares what has come with a head with its checksum.
  void require_content(int peer) const;
  [[noreturn]] void refuse(int peer, const std::string& problem) const;
  /// Leaves what is under way to MPI.
  void abandon() noexcept;
  /// Waits until no request for one of these purposes is left.
  void await(std::span<const Purpose> purposes);
  bool is_waiting_for(std::span<const Purpose> purposes) const;
  bool complete_some();
  void check_deadline();
  void tell_that_it_waits();
  void hear_who_waits();
  void read_heartbeats();
  /// Calls heard(peer) for each note with this tag that is about this operation or its neighbours.
  void read_notes(int tag, const std::function<void(int peer)>& heard);

  MpiGroup& group_;
  MpiOperationKind kind_;
  std::uint64_t number_;
  bool has_told_ = false;
  PeerLiveness liveness_;
  std::vector<std::shared_ptr<void>> kept_;
  std::shared_ptr<std::vector<Place>> all_places_;
  std::vector<Place>& places_;  // [size]
  std::vector<MPI_Request> requests_;
  std::vector<Request> requested_;
  std::vector<int> completed_;
  std::vector<MPI_Status> statuses_;
};

}  // namespace terngrad
