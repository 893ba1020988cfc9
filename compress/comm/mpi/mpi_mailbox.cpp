#include "compress/comm/mpi/mpi_mailbox.h"

#include <algorithm>
#include <array>
#include <cstring>
#include <deque>
#include <list>
#include <span>
#include <string>
#include <utility>
#include <vector>

#include "compress/comm/mpi/message_chunks.h"
#include "compress/comm/mpi/operation_header.h"
#include "compress/comm/mpi/peer_liveness.h"
#include "compress/comm/mpi/poll_backoff.h"
#include "kernels/runtime/errors.h"

namespace terngrad {
namespace {

// Messages between two ranks with the same tag arrive in the order in which they were sent.
constexpr int kHeadTag = 1;
constexpr int kDataTag = 2;
constexpr std::size_t kHeadBytes = 4096;
constexpr std::uint8_t kKind = 6;  // follows MpiOperationKind
static_assert(sizeof(OperationHeader) + 8 * Mailbox::kMaxParcels <= kHeadBytes);

/// State of messages from (and their number to) one other rank.
struct Incoming {
  std::vector<std::uint8_t> head = std::vector<std::uint8_t>(kHeadBytes);
  MPI_Request head_request = MPI_REQUEST_NULL;
  std::uint64_t number = 0;
  Parcels parcels;  // current message, whose head has been received
  std::vector<MPI_Request> pieces;
  std::uint64_t num_sent = 0;  // number of messages to this rank
};

/// A message that MPI may still read.
struct Outgoing {
  int to = 0;
  std::vector<std::uint8_t> head;
  Parcels parcels;
  std::vector<MPI_Request> requests;
};

/// Memory that MPI may read and write.
struct Memory {
  std::vector<Incoming> incoming;  // [size]
  std::list<Outgoing> outgoing;
};

class MpiMailbox final : public Mailbox {
 public:
  explicit MpiMailbox(MpiGroup group)
      : group_(std::move(group)), memory_(std::make_unique<Memory>()), liveness_(group_.size, group_.timeout_seconds) {
    memory_->incoming.resize(static_cast<std::size_t>(group_.size));
    for (int peer = 0; peer < group_.size; ++peer) {
      if (peer != group_.rank) post_head(peer);
    }
  }
  MpiMailbox(const MpiMailbox&) = delete;
  MpiMailbox& operator=(const MpiMailbox&) = delete;
  ~MpiMailbox() override {
    const bool is_idle = memory_->outgoing.empty() && std::ranges::all_of(memory_->incoming, [](const Incoming& from) {
                           return from.pieces.empty();
                         });
    if (group_.is_broken || !is_idle) {
      // The communicator is kept too: freeing it would wait for peers that may never come.
      abandon_to_mpi(std::move(memory_));
      return;
    }
    for (Incoming& from : memory_->incoming) {
      if (from.head_request == MPI_REQUEST_NULL) continue;
      MPI_Cancel(&from.head_request);
      MPI_Wait(&from.head_request, MPI_STATUS_IGNORE);
    }
    MPI_Comm_free(&group_.communicator);
  }

  int rank() const override { return group_.rank; }
  int size() const override { return group_.size; }

  void send(int to, Parcels message) override {
    TERNGRAD_REQUIRE(to >= 0 && to < group_.size && to != group_.rank, "[mailbox] rank ", to,
                     " is no other rank of a group of ", group_.size);
    TERNGRAD_REQUIRE(message.count() <= kMaxParcels, "[mailbox] a message has at most ", kMaxParcels, " parcels, got ",
                     message.count());
    require_whole();
    Outgoing& out = memory_->outgoing.emplace_back();
    out.to = to;
    out.parcels = std::move(message);
    post(out);
    liveness_.record_activity(to);
    progress();
  }

  int receive(std::span<const int> awaited, Parcels& message) override {
    require_whole();
    await([&] { return !arrived_.empty(); }, [&](int peer) { return std::ranges::count(awaited, peer) > 0; });
    const int from = arrived_.front().first;
    message = std::move(arrived_.front().second);
    arrived_.pop_front();
    liveness_.record_activity(from);
    return from;
  }

  void send_heartbeat() override { group_.send_heartbeat(); }

  void flush() override {
    require_whole();
    await([&] { return memory_->outgoing.empty(); },
          [&](int peer) {
            return std::ranges::any_of(memory_->outgoing, [&](const Outgoing& out) { return out.to == peer; });
          });
  }

 private:
  static constexpr const char* kName = "mailbox";

  bool has_arrived(int peer) const {
    return std::ranges::any_of(arrived_, [&](const auto& message) { return message.first == peer; });
  }

  Incoming& of(int peer) { return memory_->incoming[static_cast<std::size_t>(peer)]; }

  void require_whole() const {
    if (group_.is_broken) {
      TERNGRAD_THROW(CommunicationError, "[mailbox] ", group_.name_of(group_.rank),
                     ": an earlier call failed, so the mailbox cannot be used any more");
    }
  }

  void post_head(int peer) {
    Incoming& from = of(peer);
    group_.require_success(MPI_Irecv(from.head.data(), static_cast<int>(kHeadBytes), MPI_BYTE, peer, kHeadTag,
                                     group_.communicator, &from.head_request),
                           kName);
  }

  void post(Outgoing& out) {
    const std::span<const std::uint64_t> sizes = out.parcels.sizes();
    const std::span<const std::uint8_t> data = out.parcels.storage();
    OperationHeader header;
    header.kind = kKind;
    header.number = of(out.to).num_sent++;
    header.num_sizes = static_cast<std::uint32_t>(sizes.size());
    header.data_bytes = data.size();
    header.chunk_bytes = group_.chunk_bytes;
    const std::size_t begin = sizeof(header) + sizes.size_bytes();
    const bool fits = data.size() <= kHeadBytes - begin;
    header.holds_all = fits ? 1 : 0;
    header.seal(sizes, data);
    out.head.resize(begin + (fits ? data.size() : 0));
    std::memcpy(out.head.data(), &header, sizeof(header));
    if (!sizes.empty()) std::memcpy(out.head.data() + sizeof(header), sizes.data(), sizes.size_bytes());
    if (fits && !data.empty()) std::memcpy(out.head.data() + begin, data.data(), data.size());
    post_piece(out, out.head, kHeadTag);
    if (fits) return;
    for_each_piece(data, group_.chunk_bytes,
                   [&](std::span<const std::uint8_t> piece) { post_piece(out, piece, kDataTag); });
  }

  void post_piece(Outgoing& out, std::span<const std::uint8_t> bytes, int tag) {
    out.requests.push_back(MPI_REQUEST_NULL);
    group_.require_success(MPI_Isend(bytes.data(), static_cast<int>(bytes.size()), MPI_BYTE, out.to, tag,
                                     group_.communicator, &out.requests.back()),
                           kName);
  }

  /// Advances all transfers without waiting. @returns true if any progress was made
  bool progress() {
    bool any = false;
    for (auto out = memory_->outgoing.begin(); out != memory_->outgoing.end();) {
      const bool is_taken = test(out->requests, out->to, any);
      out = is_taken ? memory_->outgoing.erase(out) : std::next(out);
    }
    for (int peer = 0; peer < group_.size; ++peer) {
      if (peer != group_.rank && take(peer)) any = true;
    }
    return any;
  }

  /// Removes completed requests, each of which counts as activity of `peer`. @returns true if none is left
  bool test(std::vector<MPI_Request>& requests, int peer, bool& any) {
    std::erase_if(requests, [&](MPI_Request& request) {
      int has_ended = 0;
      group_.require_success(MPI_Test(&request, &has_ended, MPI_STATUS_IGNORE), kName);
      if (has_ended == 0) return false;
      any = true;
      liveness_.record_activity(peer);
      return true;
    });
    return requests.empty();
  }

  /// Advances the current incoming message of `peer`. @returns true if any progress was made
  bool take(int peer) {
    Incoming& from = of(peer);
    bool any = false;
    if (from.pieces.empty()) {
      int has_come = 0;
      MPI_Status status;
      group_.require_success(MPI_Test(&from.head_request, &has_come, &status), kName);
      if (has_come == 0) return false;
      any = true;
      liveness_.record_activity(peer);
      int bytes = 0;
      MPI_Get_count(&status, MPI_BYTE, &bytes);
      read_head(peer, static_cast<std::size_t>(std::max(bytes, 0)));
    }
    if (!test(from.pieces, peer, any)) return any;
    arrived_.emplace_back(peer, std::move(from.parcels));
    from.parcels = {};
    post_head(peer);
    return any;
  }

  /// Contents of a head, once it has passed all checks.
  struct Content {
    OperationHeader header;
    std::array<std::uint64_t, kMaxParcels> all_sizes{};
    std::span<const std::uint8_t> data;  // data in the head
    std::span<const std::uint64_t> sizes() const { return {all_sizes.data(), header.num_sizes}; }
  };

  /// @returns an error text, or empty if the head is valid
  std::string read_content(const Incoming& from, std::span<const std::uint8_t> head, Content& content) const {
    OperationHeader& header = content.header;
    if (std::string problem = read_operation_header(head, header); !problem.empty()) return problem;
    if (header.kind != kKind) return "its kind is " + std::to_string(header.kind);
    if (header.number != from.number) return "its number is " + std::to_string(header.number);
    const std::size_t room = head.size() - sizeof(header);
    if (header.num_sizes > kMaxParcels || header.num_sizes > room / 8 ||
        !is_sound_message(header.data_bytes, header.chunk_bytes) ||
        room - 8 * std::size_t{header.num_sizes} != (header.holds_all != 0 ? header.data_bytes : 0)) {
      return "its sizes are inconsistent";
    }
    const std::size_t size_bytes = 8 * std::size_t{header.num_sizes};
    if (size_bytes > 0) std::memcpy(content.all_sizes.data(), head.data() + sizeof(header), size_bytes);
    content.data = head.subspan(sizeof(header) + size_bytes);
    if (!are_sizes_of(header.data_bytes, content.sizes())) return "its sizes are not those of its data";
    return check_operation_content(header, content.sizes(), content.data);
  }

  void read_head(int peer, std::size_t bytes) {
    Incoming& from = of(peer);
    Content content;
    const std::string problem = read_content(from, std::span(from.head).first(bytes), content);
    if (!problem.empty()) {
      group_.is_broken = true;
      TERNGRAD_THROW(CommunicationError, "[mailbox] what came from ", group_.name_of(peer), " as message ", from.number,
                     " is not as this version of the program sends it: ", problem);
    }
    ++from.number;
    const OperationHeader& header = content.header;
    const std::span<std::uint8_t> data = from.parcels.extend(content.sizes());
    if (header.holds_all != 0) {
      if (!data.empty()) std::memcpy(data.data(), content.data.data(), data.size());
      return;
    }
    for_each_piece(data, header.chunk_bytes, [&](std::span<std::uint8_t> piece) {
      from.pieces.push_back(MPI_REQUEST_NULL);
      group_.require_success(MPI_Irecv(piece.data(), static_cast<int>(piece.size()), MPI_BYTE, peer, kDataTag,
                                       group_.communicator, &from.pieces.back()),
                             kName);
    });
  }

  /// Waits until is_done(). @throws CommunicationError if a rank with is_awaited(rank) is silent longer than the
  /// timeout
  template <class IsDone, class IsAwaited>
  void await(const IsDone& is_done, const IsAwaited& is_awaited) {
    PollBackoff backoff;
    for (;;) {
      // Messages that have arrived are processed before any rank is called silent. Deadlines are checked even if other
      // ranks keep this one busy.
      const bool any = progress();
      check_deadline(is_awaited);
      if (is_done()) return;
      if (any) {
        backoff.reset();
      } else {
        backoff.wait();
      }
    }
  }

  /// Names of awaited ranks that have been silent for longer than `seconds`.
  template <class IsAwaited>
  std::string silent_for(double seconds, const IsAwaited& is_awaited) const {
    return group_.names_where([&](int peer) {
      return is_awaited(peer) && !has_arrived(peer) && liveness_.seconds_of_silence(peer) > seconds;
    });
  }

  template <class IsAwaited>
  void check_deadline(const IsAwaited& is_awaited) {
    liveness_.look();
    if (liveness_.in_grace_period() || silent_for(group_.timeout_seconds / 4, is_awaited).empty()) return;
    group_.read_notes(kMpiHeartbeatTag, kName, [this](int peer, std::uint64_t) { liveness_.record_activity(peer); });
    const std::string silent = silent_for(group_.timeout_seconds, is_awaited);
    if (silent.empty()) return;
    group_.is_broken = true;
    TERNGRAD_THROW(CommunicationError, "[mpi] mailbox: ", group_.silence_text(silent));
  }

  MpiGroup group_;
  std::unique_ptr<Memory> memory_;
  std::deque<std::pair<int, Parcels>> arrived_;
  PeerLiveness liveness_;
};

}  // namespace

std::unique_ptr<Mailbox> make_mpi_mailbox(MpiGroup group) { return std::make_unique<MpiMailbox>(std::move(group)); }

}  // namespace terngrad
