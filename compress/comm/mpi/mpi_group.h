// MpiGroup: the ranks of an MPI communicator. Internal.
#pragma once

#include <mpi.h>

#include <chrono>
#include <cstdint>
#include <functional>
#include <memory>
#include <string>
#include <vector>

namespace terngrad {

/// A number that ranks send each other independently of operations.
struct MpiNote {
  std::uint64_t value = 0;
  std::uint32_t checksum = 0;  // CRC32C of the value
  std::uint32_t reserved = 0;
};
static_assert(sizeof(MpiNote) == 16);

/// State shared by all users of one MPI communicator: operations, or a mailbox.
struct MpiGroup {
  MPI_Comm communicator = MPI_COMM_NULL;
  int rank = 0;
  int size = 1;
  std::vector<std::string> hosts;  // [size]
  std::vector<int> launch_ranks;   // [size] ranks in the launch, for messages; empty: the same
  double timeout_seconds = 600;
  std::size_t chunk_bytes = 0;          // piece size of long messages
  std::uint64_t num_operations = 0;     // begun so far
  bool is_broken = false;               // an operation failed: its messages may still be pending
  std::function<void()> while_waiting;  // see Communicator; may be empty
  MpiNote heartbeat;                    // last one sent; must stay valid until MPI has taken it

  std::string name_of(int peer) const;  // "rank 2 (host node3)", by its rank in the launch
  /// The names of the other ranks for which is_named(peer), in order: "rank 2 (host node3), rank 5 (host node4)".
  template <class IsNamed>
  std::string names_where(const IsNamed& is_named) const {
    std::string names;
    for (int peer = 0; peer < size; ++peer) {
      if (peer != rank && is_named(peer)) names += (names.empty() ? "" : ", ") + name_of(peer);
    }
    return names;
  }
  /// Error text for a timeout. @param peers  the silent ranks, as listed by names_where
  std::string silence_text(const std::string& peers) const;
  /// @throws CommunicationError with this rank, the operation and MPI's error text
  void require_success(int result, const char* operation);

  /// Sends a note to all peers without waiting. @param note  storage of the value; must stay valid until MPI has taken
  /// it
  void send_note(MpiNote& note, std::uint64_t value, int tag, const char* operation);
  /// Calls heard(peer, value) for each received note with this tag. @throws CommunicationError for a damaged one
  void read_notes(int tag, const char* operation, const std::function<void(int peer, std::uint64_t value)>& heard);
  /// Tells all peers that this rank is alive and will join the next operation; sends at most 8 times per timeout.
  void send_heartbeat();

  std::chrono::steady_clock::time_point last_heartbeat = {};  // time of the last heartbeat
};

/// Tag of heartbeats: notes with the number of the next operation that the rank will join.
inline constexpr int kMpiHeartbeatTag = 5;
/// Tag of notes from MpiCommunicator::send_control.
inline constexpr int kMpiControlTag = 6;

/// Keeps memory that MPI may still access after a failure, until the end of the process.
void abandon_to_mpi(std::shared_ptr<void> memory);

}  // namespace terngrad
