// MpiGroup: the ranks of a communicator of MPI. Internal.
#pragma once

#include <mpi.h>

#include <chrono>
#include <cstdint>
#include <functional>
#include <memory>
#include <string>
#include <vector>

namespace terngrad {

/// A number that ranks tell each other beside all operations.
struct MpiNote {
  std::uint64_t value = 0;
  std::uint32_t checksum = 0;  // CRC32C of the value
  std::uint32_t reserved = 0;
};
static_assert(sizeof(MpiNote) == 16);

/// What all that uses one communicator shares: operations, or a mailbox.
struct MpiGroup {
  MPI_Comm communicator = MPI_COMM_NULL;
  int rank = 0;
  int size = 1;
  std::vector<std::string> hosts;  // [size]
  double timeout_seconds = 600;
  std::size_t chunk_bytes = 0;       // of long messages' pieces
  std::uint64_t num_operations = 0;  // begun so far
  bool is_broken = false;            // something failed: its messages may still be under way
  MpiNote heartbeat;                 // the last one that was sent; stays until MPI has taken it

  std::string name_of(int peer) const;  // "rank 2 (host node3)"
  /// The names of the other ranks for which is_named(peer), in order: "rank 2 (host node3), rank 5 (host node4)".
  template <class IsNamed>
  std::string names_where(const IsNamed& is_named) const {
    std::string names;
    for (int peer = 0; peer < size; ++peer) {
      if (peer != rank && is_named(peer)) names += (names.empty() ? "" : ", ") + name_of(peer);
    }
    return names;
  }
  /// The error of a rank that misses others. @param peers  the missed ranks, as names_where lists them
  std::string silence_text(const std::string& peers) const;
  /// @throws CommunicationError that names this rank, the operation and MPI's words
  void require_success(int result, const char* operation);

  /// Sends a note to all peers without waiting. @param note  holds the value, until MPI has taken it
  void send_note(MpiNote& note, std::uint64_t value, int tag, const char* operation);
  /// Calls heard(peer, value) for each note with this tag that has come. @throws CommunicationError for a damaged one
  void read_notes(int tag, const char* operation, const std::function<void(int peer, std::uint64_t value)>& heard);
  /// Tells all peers that this rank will come to the next operation; at most 8 times in the time that they wait.
  void send_heartbeat();

  std::chrono::steady_clock::time_point last_heartbeat = {};  // when the last one was sent
};

/// The tag of heartbeats: notes with the number of the operation to which a rank will come next.
inline constexpr int kMpiHeartbeatTag = 5;
/// The tag of notes that MpiCommunicator::send_control sends.
inline constexpr int kMpiControlTag = 6;

/// Keeps memory that MPI may still use after a failure, to the end of the process.
void abandon_to_mpi(std::shared_ptr<void> memory);

}  // namespace terngrad
