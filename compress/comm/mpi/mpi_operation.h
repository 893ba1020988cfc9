// MpiOperation: one collective operation as messages between pairs of ranks. Internal.
#pragma once

#include <mpi.h>

#include <cstdint>
#include <functional>
#include <memory>
#include <span>
#include <string>
#include <vector>

#include "compress/comm/mpi/mpi_group.h"
#include "compress/comm/mpi/mpi_requests.h"
#include "compress/comm/mpi/operation_header.h"
#include "kernels/runtime/buffer.h"

namespace terngrad {

/// Of the messages with which operations begin.
inline constexpr int kMpiAnnouncementTag = 1;

enum class MpiOperationKind : std::uint32_t { kAllGather, kAllToAll, kSum, kMax, kBroadcast, kBarrier };

/// Every rank announces the operation to all, and sends what an announcement does not hold directly to the ranks that
/// need it:
///   MpiOperation operation(group, kind);
///   operation.send(peer, sizes, data);      // to any peers
///   operation.announce(sizes, data, holds_all);
///   operation.await_heads(sends_directly);  // what comes is then known
///   operation.receive(peer, data);          // from each peer
///   operation.finish();
/// An announcement is an OperationHeader, which says the operation's number and kind, and at most a fixed size of
/// content. Announcements are gathered by everyone, in rounds (Bruck et al., IEEE TPDS 8(11), 1997): in round i = 0, 1,
/// ... a rank gets from the 2^i-th rank after it what that one has, so each rank sends ceil(log2 size) messages, and in
/// the end every rank has come and knows whether all do the same. A direct message begins with such a head too; sizes
/// and data that do not fit into it follow by themselves, data in pieces.
///
/// Memory that was passed in must stay until finish; after a failure, which leaves messages under way, to the end of
/// the process, which should come soon: MPI may still read and write it. What is given to `keep_alive` does.
class MpiOperation {
 public:
  /// The most bytes of a head and its content.
  static constexpr std::size_t kHeadBytes = 4096;

  MpiOperation(MpiGroup& group, MpiOperationKind kind);
  MpiOperation(const MpiOperation&) = delete;
  MpiOperation& operator=(const MpiOperation&) = delete;
  /// One that did not come to finish breaks the group.
  ~MpiOperation();

  /// Whether a head can hold these.
  static bool fits(std::span<const std::uint64_t> sizes, std::span<const std::uint8_t> data);
  /// Directly to a peer.
  void send(int peer, std::span<const std::uint64_t> sizes, std::span<const std::uint8_t> data);
  /// Waits for everyone's announcement.
  /// @param data       their number of bytes is told in any case
  /// @param holds_all  whether the announcement holds sizes and data, which must fit
  /// @param root       what all must say alike
  /// @throws CommunicationError if a rank is silent for too long, in another operation, or its announcement not sound
  void announce(std::span<const std::uint64_t> sizes, std::span<const std::uint8_t> data, bool holds_all, int root = 0);
  /// Waits for the heads of peers that send directly. @throws CommunicationError as announce does
  void await_heads(const std::function<bool(int peer)>& sends_directly);

  /// Whether all that a peer sends has come with its head, the one that came last.
  bool holds_all(int peer) const { return place(peer).header.holds_all != 0; }
  /// What a peer has sent along with its data.
  std::span<const std::uint64_t> sizes(int peer) const { return place(peer).sizes; }
  std::size_t data_bytes(int peer) const { return place(peer).header.data_bytes; }
  /// @throws CommunicationError unless a peer has told of that many bytes
  void require_bytes(int peer, std::size_t bytes) const;
  /// @throws CommunicationError unless the peer's sizes are those of parcels that make up its data
  void require_parcels(int peer) const;
  /// Takes a share in memory that is received into or sent from, so that it stays for as long as MPI may use it.
  void keep_alive(std::shared_ptr<void> memory) { requests_.keep_alive(std::move(memory)); }
  /// @param data  [data_bytes(peer)] filled when finish returns
  void receive(int peer, std::span<std::uint8_t> data);
  void finish();

 private:
  struct Place {  // of one peer
    std::vector<std::uint8_t> sent_head;
    std::vector<std::uint8_t> head;  // that came directly
    OperationHeader header;
    std::vector<std::uint64_t> sizes;
    std::span<const std::uint8_t> data;  // those that the head holds
  };
  /// All that MPI may read and write.
  struct Memory {
    std::vector<Place> places;           // [size]
    Buffer<std::uint8_t> announcements;  // this rank's, the next one's and so on
  };
  static std::size_t index(int peer) { return static_cast<std::size_t>(peer); }
  Place& place(int peer) { return memory_->places[index(peer)]; }
  const Place& place(int peer) const { return memory_->places[index(peer)]; }
  const char* name() const;
  /// Completes a header and writes the head. @returns its size
  std::size_t write_head(OperationHeader& header, std::span<const std::uint64_t> sizes,
                         std::span<const std::uint8_t> data, std::span<std::uint8_t> head) const;
  /// Reads a peer's head, with which `message` begins; it came from `sender`, which may have passed it on. @returns its
  /// size
  std::size_t read_head(int peer, int sender, std::span<const std::uint8_t> message);
  void require_sound(int peer, int sender, std::size_t room) const;
  /// @throws CommunicationError unless a peer is in this operation
  void require_same_operation(int peer) const;
  /// Compares what has come with a head with its checksum.
  void require_content(int peer, int sender) const;
  [[noreturn]] void refuse(int peer, int sender, const std::string& problem) const;

  MpiGroup& group_;
  MpiOperationKind kind_;
  std::uint64_t number_;
  bool has_ended_ = false;
  MpiRequests requests_;
  std::shared_ptr<Memory> memory_;
};

}  // namespace terngrad
