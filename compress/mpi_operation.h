// MpiOperation: one collective operation as messages between pairs of ranks, with a deadline. Internal.
#pragma once

#include <mpi.h>

#include <chrono>
#include <cstdint>
#include <memory>
#include <span>
#include <string>
#include <vector>

namespace terngrad {

/// What the operations of one communicator share.
struct MpiGroup {
  MPI_Comm communicator = MPI_COMM_NULL;
  int rank = 0;
  int size = 1;
  std::vector<std::string> hosts;  // [size]
  double timeout_seconds = 600;
  std::size_t chunk_bytes = 0;
  std::uint64_t num_operations = 0;              // begun so far
  bool is_broken = false;                        // an operation failed: its messages may still be under way
  std::uint64_t waiting_note = 0;                // what a rank that waits sends; stays until MPI has taken it
  std::uint64_t busy_note = 0;                   // what a rank that is busy sends, likewise
  std::vector<std::shared_ptr<void>> abandoned;  // memory of operations that failed, which MPI may still use

  std::string name_of(int peer) const;  // "rank 2 (host node3)"
  /// @throws CommunicationError that names this rank, the operation and MPI's words
  void require_success(int result, const char* operation);
  /// Tells all peers that this rank will come to the next operation; at most 8 times in the time that they wait.
  void tell_busy();

  std::chrono::steady_clock::time_point told_busy = {};  // when it last did
};

/// Of the messages with which operations begin.
inline constexpr int kMpiLetterTag = 1;
/// Of the notes that MpiGroup::tell_busy sends, of 8 bytes.
inline constexpr int kMpiBusyTag = 5;

enum class MpiOperationKind : std::uint32_t { kAllGather, kAllToAll, kSum, kMax, kBroadcast, kBarrier };

/// Every rank sends something, if only nothing, to every other one:
///   MpiOperation operation(group, kind);
///   operation.send(peer, sizes, data);      // for each peer
///   operation.await_letters();              // what comes is then known
///   operation.receive(peer, data);          // for each peer
///   operation.finish();
/// Each message begins with a letter of fixed greatest size, which says the operation's number and kind and how much
/// follows, and holds it if it fits: a small operation costs one message to each peer. Sizes and data that do not fit
/// follow in messages of their own. Memory that was passed in must stay until finish; after a failure, which leaves
/// messages under way, to the end of the process, which should come soon: MPI may still read and write it.
///
/// A rank that waits for long tells the others that it does, so that whoever waits for it in turn does not name it but
/// the one that is silent. One that is busy between operations can tell that (MpiGroup::tell_busy): a sign of life.
class MpiOperation {
 public:
  MpiOperation(MpiGroup& group, MpiOperationKind kind);
  MpiOperation(const MpiOperation&) = delete;
  MpiOperation& operator=(const MpiOperation&) = delete;
  /// After a failure, gives up what was not received yet.
  ~MpiOperation();

  void send(int peer, std::span<const std::uint64_t> sizes, std::span<const std::uint8_t> data);
  /// @throws CommunicationError if a peer is silent for too long or in another operation
  void await_letters();
  /// What a peer has sent along with its data.
  std::span<const std::uint64_t> sizes(int peer) const { return places_[index(peer)].sizes; }
  std::size_t data_bytes(int peer) const { return places_[index(peer)].data_bytes; }
  /// @param data  [data_bytes(peer)] filled when finish returns
  void receive(int peer, std::span<std::uint8_t> data);
  void finish();

 private:
  using Clock = std::chrono::steady_clock;
  static constexpr std::uint64_t kLetterMagic = 0x3152454c44524754;  // changes with the letter's form
  static constexpr std::size_t kLetterBytes = 4096;
  struct Letter {
    std::uint64_t magic = kLetterMagic;
    std::uint64_t number = 0;  // of the operation
    std::uint32_t kind = 0;
    std::uint32_t holds_all = 0;  // sizes and data are in this message
    std::uint64_t num_sizes = 0;
    std::uint64_t data_bytes = 0;
    std::uint64_t chunk_bytes = 0;  // the sender's
  };
  /// What a request is for: the earlier in this list, the more a request that does not end says about its peer.
  enum class Purpose { kLetter, kReceive, kSend };
  struct Request {
    int peer;
    Purpose purpose;
  };
  struct Place {  // of one peer
    std::vector<std::uint8_t> sent_letter;
    std::vector<std::uint8_t> letter;
    std::size_t letter_bytes = 0;  // that came
    std::vector<std::uint64_t> sizes;
    std::size_t data_bytes = 0;
    std::size_t chunk_bytes = 0;
    std::size_t data_in_letter = 0;  // where the data begin, 0 if they come by themselves
    Clock::time_point last_heard;
    bool waits_itself = false;
  };
  static std::size_t index(int peer) { return static_cast<std::size_t>(peer); }
  const char* name() const;
  void post_send(int peer, const void* data, std::size_t bytes, int tag, Purpose purpose);
  void post_receive(int peer, void* data, std::size_t bytes, int tag, Purpose purpose);
  /// Reads a letter that has come. @returns whether sizes come by themselves
  bool read_letter(int peer);
  void require_sound(int peer, const Letter& letter) const;
  /// Leaves what is under way to MPI.
  void abandon() noexcept;
  /// Adds the time since the last look to every peer's, if it is so long that this process itself must have been
  /// stopped.
  void forgive_own_sleep();
  /// Waits until no request for one of these purposes is left.
  void await(std::span<const Purpose> purposes);
  bool is_waiting_for(std::span<const Purpose> purposes) const;
  bool complete_some();
  void check_deadline();
  void tell_that_it_waits();
  void hear_who_waits();
  void hear_who_is_busy();
  /// Calls heard(peer) for each note with this tag that is about this operation or its neighbours.
  template <class Heard>
  void read_notes(int tag, const Heard& heard);

  MpiGroup& group_;
  MpiOperationKind kind_;
  std::uint64_t number_;
  bool has_told_ = false;
  Clock::time_point last_look_ = Clock::now();
  Clock::time_point patient_until_;  // after a sleep of this process, messages need a moment to come in
  std::shared_ptr<std::vector<Place>> all_places_;
  std::vector<Place>& places_;  // [size]
  std::vector<MPI_Request> requests_;
  std::vector<Request> requested_;
  std::vector<int> completed_;
  std::vector<MPI_Status> statuses_;
};

}  // namespace terngrad
