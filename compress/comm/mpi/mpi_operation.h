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

/// Tag of announcements, with which operations begin.
inline constexpr int kMpiAnnouncementTag = 1;

enum class MpiOperationKind : std::uint32_t { kAllGather, kAllToAll, kSum, kMax, kBroadcast, kBarrier };

/// Every rank announces the operation to all others, and sends data that do not fit into its announcement directly to
/// the ranks that need them:
///   MpiOperation operation(group, kind);
///   operation.send(peer, sizes, data);      // to any peers
///   operation.announce(sizes, data, holds_all);
///   operation.await_heads(sends_directly);  // sizes to receive are known from here on
///   operation.receive(peer, data);          // from each peer
///   operation.finish();
/// An announcement is an OperationHeader, with number and kind of the operation, and content of limited size.
/// Announcements are all-gathered in rounds (Bruck et al., IEEE TPDS 8(11), 1997): in round i = 0, 1, ... a rank
/// receives all announcements known to the 2^i-th rank after it. Each rank sends ceil(log2 size) messages, and at the
/// end every rank has arrived and knows if all are in the same operation. A direct message begins with an
/// OperationHeader too; sizes and data that do not fit behind it follow in separate messages, data in pieces.
///
/// Memory passed in must stay valid until finish. After a failure, which leaves messages pending, it must stay valid
/// until the end of the process, which should follow soon: MPI may still access it. Use `keep_alive` for this.
class MpiOperation {
 public:
  /// Maximum bytes of a header with its content ("head").
  static constexpr std::size_t kHeadBytes = 4096;

  MpiOperation(MpiGroup& group, MpiOperationKind kind);
  MpiOperation(const MpiOperation&) = delete;
  MpiOperation& operator=(const MpiOperation&) = delete;
  /// Marks the group as broken unless finish was called.
  ~MpiOperation();

  /// True if a head can hold these.
  static bool fits(std::span<const std::uint64_t> sizes, std::span<const std::uint8_t> data);
  /// Sends directly to a peer.
  void send(int peer, std::span<const std::uint64_t> sizes, std::span<const std::uint8_t> data);
  /// Waits for everyone's announcement.
  /// @param data       its size is announced in any case
  /// @param holds_all  true if the announcement is to hold sizes and data, which must fit
  /// @param root       must be equal on all ranks
  /// @throws CommunicationError if a rank times out, is in another operation, or sends an invalid announcement
  void announce(std::span<const std::uint64_t> sizes, std::span<const std::uint8_t> data, bool holds_all, int root = 0);
  /// Waits for the heads of peers that send directly. @throws CommunicationError as announce does
  void await_heads(const std::function<bool(int peer)>& sends_directly);

  /// True if the last head of a peer holds all of its sizes and data.
  bool holds_all(int peer) const { return place(peer).header.holds_all != 0; }
  /// Sizes that a peer sent with its data.
  std::span<const std::uint64_t> sizes(int peer) const { return place(peer).sizes; }
  std::size_t data_bytes(int peer) const { return place(peer).header.data_bytes; }
  /// @throws CommunicationError unless a peer announced this many bytes
  void require_bytes(int peer, std::size_t bytes) const;
  /// @throws CommunicationError unless the peer's sizes are those of parcels with its number of data bytes
  void require_parcels(int peer) const;
  /// Shares ownership of memory that is received into or sent from, for as long as MPI may use it.
  void keep_alive(std::shared_ptr<void> memory) { requests_.keep_alive(std::move(memory)); }
  /// @param data  [data_bytes(peer)] filled when finish returns
  void receive(int peer, std::span<std::uint8_t> data);
  void finish();

 private:
  struct Place {  // one per peer
    std::vector<std::uint8_t> sent_head;
    std::vector<std::uint8_t> head;  // received directly
    OperationHeader header;
    std::vector<std::uint64_t> sizes;
    std::span<const std::uint8_t> data;  // data in the head
  };
  /// Memory that MPI may read and write.
  struct Memory {
    std::vector<Place> places;           // [size]
    Buffer<std::uint8_t> announcements;  // starting with this rank's, then the next rank's, cyclic
  };
  static std::size_t index(int peer) { return static_cast<std::size_t>(peer); }
  Place& place(int peer) { return memory_->places[index(peer)]; }
  const Place& place(int peer) const { return memory_->places[index(peer)]; }
  const char* name() const;
  /// Completes a header and writes the head. @returns its size
  std::size_t write_head(OperationHeader& header, std::span<const std::uint64_t> sizes,
                         std::span<const std::uint8_t> data, std::span<std::uint8_t> head) const;
  /// Parses a peer's head at the start of `message`, which `sender` sent or passed on. @returns its size
  std::size_t read_head(int peer, int sender, std::span<const std::uint8_t> message);
  void require_sound(int peer, int sender, std::size_t room) const;
  /// @throws CommunicationError unless a peer is in this operation
  void require_same_operation(int peer) const;
  /// Compares the content of a received head with its checksum.
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
