#include "compress/mpi_mailbox.h"

#include <algorithm>
#include <array>
#include <cstring>
#include <deque>
#include <list>
#include <string>
#include <utility>
#include <vector>

#include "compress/message_pieces.h"
#include "compress/patience.h"
#include "compress/signs_of_life.h"
#include "kernels/errors.h"

namespace terngrad {
namespace {

// Messages between two ranks with the same tag arrive in the order in which they were sent.
constexpr int kLetterTag = 1;
constexpr int kDataTag = 2;
constexpr std::uint64_t kMagic = 0x31584f424c49414d;  // changes with the letter's form
constexpr std::size_t kLetterBytes = 4096;

struct Letter {
  std::uint64_t magic = kMagic;
  std::uint64_t number = 0;  // of this pair's messages in this direction
  std::uint32_t num_parcels = 0;
  std::uint32_t holds_all = 0;   // the data are in this message, after the parcels' sizes
  std::uint64_t data_bytes = 0;  // of the parcels' storage
  std::uint64_t chunk_bytes = 0;
};
static_assert(sizeof(Letter) + 8 * Mailbox::kMaxParcels <= kLetterBytes);

/// What one other rank sends.
struct Incoming {
  std::vector<std::uint8_t> letter = std::vector<std::uint8_t>(kLetterBytes);
  MPI_Request letter_request = MPI_REQUEST_NULL;
  std::uint64_t number = 0;
  Parcels parcels;  // of the message whose letter has come
  std::vector<MPI_Request> pieces;
  std::uint64_t num_sent = 0;  // messages to it
};

/// A message that MPI may still read.
struct Outgoing {
  int to = 0;
  std::vector<std::uint8_t> letter;
  Parcels parcels;
  std::vector<MPI_Request> requests;
};

/// All that MPI may read and write.
struct Memory {
  std::vector<Incoming> incoming;  // [size]
  std::list<Outgoing> outgoing;
};

class MpiMailbox final : public Mailbox {
 public:
  explicit MpiMailbox(MpiGroup group)
      : group_(std::move(group)), memory_(std::make_unique<Memory>()), signs_(group_.size, group_.timeout_seconds) {
    memory_->incoming.resize(static_cast<std::size_t>(group_.size));
    for (int peer = 0; peer < group_.size; ++peer) {
      if (peer != group_.rank) post_letter(peer);
    }
  }
  MpiMailbox(const MpiMailbox&) = delete;
  MpiMailbox& operator=(const MpiMailbox&) = delete;
  ~MpiMailbox() override {
    const bool is_idle = memory_->outgoing.empty() && std::ranges::all_of(memory_->incoming, [](const Incoming& from) {
                           return from.pieces.empty();
                         });
    if (group_.is_broken || !is_idle) {
      // The communicator stays too: freeing it would wait for peers that may never come.
      abandon_to_mpi(std::move(memory_));
      return;
    }
    for (Incoming& from : memory_->incoming) {
      if (from.letter_request == MPI_REQUEST_NULL) continue;
      MPI_Cancel(&from.letter_request);
      MPI_Wait(&from.letter_request, MPI_STATUS_IGNORE);
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
    signs_.hear(to);
    progress();
  }

  int receive(std::span<const int> awaited, Parcels& message) override {
    require_whole();
    await([&] { return !arrived_.empty(); }, [&](int peer) { return std::ranges::count(awaited, peer) > 0; },
          "heard nothing from ");
    const int from = arrived_.front().first;
    message = std::move(arrived_.front().second);
    arrived_.pop_front();
    signs_.hear(from);
    return from;
  }

  void tell_busy() override { group_.tell_busy(); }

  void flush() override {
    require_whole();
    await([&] { return memory_->outgoing.empty(); },
          [&](int peer) {
            return std::ranges::any_of(memory_->outgoing, [&](const Outgoing& out) { return out.to == peer; });
          },
          "sent nothing that was taken by ");
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

  void post_letter(int peer) {
    Incoming& from = of(peer);
    group_.require_success(MPI_Irecv(from.letter.data(), static_cast<int>(kLetterBytes), MPI_BYTE, peer, kLetterTag,
                                     group_.communicator, &from.letter_request),
                           kName);
  }

  void post(Outgoing& out) {
    const std::span<const std::uint64_t> sizes = out.parcels.sizes();
    const std::span<const std::uint8_t> data = out.parcels.storage();
    Letter letter;
    letter.number = of(out.to).num_sent++;
    letter.num_parcels = static_cast<std::uint32_t>(sizes.size());
    letter.data_bytes = data.size();
    letter.chunk_bytes = group_.chunk_bytes;
    const std::size_t begin = sizeof(letter) + sizes.size_bytes();
    const bool fits = data.size() <= kLetterBytes - begin;
    letter.holds_all = fits ? 1 : 0;
    out.letter.resize(begin + (fits ? data.size() : 0));
    std::memcpy(out.letter.data(), &letter, sizeof(letter));
    if (!sizes.empty()) std::memcpy(out.letter.data() + sizeof(letter), sizes.data(), sizes.size_bytes());
    if (fits && !data.empty()) std::memcpy(out.letter.data() + begin, data.data(), data.size());
    post_piece(out, out.letter, kLetterTag);
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

  /// Moves on what can be moved without waiting. @returns whether anything was
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

  /// Forgets the requests that have ended, each a sign of life of `peer`. @returns whether none is left
  bool test(std::vector<MPI_Request>& requests, int peer, bool& any) {
    std::erase_if(requests, [&](MPI_Request& request) {
      int has_ended = 0;
      group_.require_success(MPI_Test(&request, &has_ended, MPI_STATUS_IGNORE), kName);
      if (has_ended == 0) return false;
      any = true;
      signs_.hear(peer);
      return true;
    });
    return requests.empty();
  }

  /// Takes what has come of the next message of `peer`. @returns whether anything has
  bool take(int peer) {
    Incoming& from = of(peer);
    bool any = false;
    if (from.pieces.empty()) {
      int has_come = 0;
      MPI_Status status;
      group_.require_success(MPI_Test(&from.letter_request, &has_come, &status), kName);
      if (has_come == 0) return false;
      any = true;
      signs_.hear(peer);
      int bytes = 0;
      MPI_Get_count(&status, MPI_BYTE, &bytes);
      read_letter(peer, static_cast<std::size_t>(std::max(bytes, 0)));
    }
    if (!test(from.pieces, peer, any)) return any;
    arrived_.emplace_back(peer, std::move(from.parcels));
    from.parcels = {};
    post_letter(peer);
    return any;
  }

  void read_letter(int peer, std::size_t bytes) {
    Incoming& from = of(peer);
    Letter letter;
    if (bytes >= sizeof(letter)) std::memcpy(&letter, from.letter.data(), sizeof(letter));
    std::array<std::uint64_t, kMaxParcels> sizes{};
    bool is_sound = bytes >= sizeof(letter) && letter.magic == kMagic && letter.number == from.number &&
                    letter.num_parcels <= kMaxParcels && is_sound_message(letter.data_bytes, letter.chunk_bytes);
    const std::size_t begin = sizeof(letter) + 8 * std::size_t{is_sound ? letter.num_parcels : 0};
    is_sound = is_sound && bytes == begin + (letter.holds_all != 0 ? letter.data_bytes : 0);
    if (is_sound && letter.num_parcels > 0) {
      std::memcpy(sizes.data(), from.letter.data() + sizeof(letter), 8 * std::size_t{letter.num_parcels});
    }
    if (!is_sound || !are_sizes_of(letter.data_bytes, {sizes.data(), letter.num_parcels})) {
      group_.is_broken = true;
      TERNGRAD_THROW(CommunicationError, "[mailbox] what came from ", group_.name_of(peer), " as message ", from.number,
                     " is no letter of this version of the program");
    }
    ++from.number;
    const std::span<std::uint8_t> data = from.parcels.extend({sizes.data(), letter.num_parcels});
    if (letter.holds_all != 0) {
      if (!data.empty()) std::memcpy(data.data(), from.letter.data() + begin, data.size());
      return;
    }
    for_each_piece(data, letter.chunk_bytes, [&](std::span<std::uint8_t> piece) {
      from.pieces.push_back(MPI_REQUEST_NULL);
      group_.require_success(MPI_Irecv(piece.data(), static_cast<int>(piece.size()), MPI_BYTE, peer, kDataTag,
                                       group_.communicator, &from.pieces.back()),
                             kName);
    });
  }

  /// Waits until `is_done`, but for no rank that `is_awaited` and gives no sign of life for too long.
  template <class IsDone, class IsAwaited>
  void await(const IsDone& is_done, const IsAwaited& is_awaited, const char* complaint) {
    Patience patience;
    for (;;) {
      // What has come in meanwhile is heard before anybody is called silent; and who is silent is found also where
      // others keep this rank busy.
      const bool any = progress();
      check_deadline(is_awaited, complaint);
      if (is_done()) return;
      if (any) {
        patience.reset();
      } else {
        patience.wait();
      }
    }
  }

  /// The names of awaited ranks that have been silent for longer than `seconds`.
  template <class IsAwaited>
  std::string silent_for(double seconds, const IsAwaited& is_awaited) const {
    return group_.names_where(
        [&](int peer) { return is_awaited(peer) && !has_arrived(peer) && signs_.seconds_of_silence(peer) > seconds; });
  }

  template <class IsAwaited>
  void check_deadline(const IsAwaited& is_awaited, const char* complaint) {
    signs_.look();
    if (signs_.is_lenient() || silent_for(group_.timeout_seconds / 4, is_awaited).empty()) return;
    group_.read_notes(kMpiBusyTag, kName, [this](int peer, std::uint64_t) { signs_.hear(peer); });
    const std::string silent = silent_for(group_.timeout_seconds, is_awaited);
    if (silent.empty()) return;
    group_.is_broken = true;
    TERNGRAD_THROW(CommunicationError, "[mpi] mailbox: ", group_.name_of(group_.rank), " has ", complaint, silent,
                   " for ", group_.timeout_seconds, " seconds");
  }

  MpiGroup group_;
  std::unique_ptr<Memory> memory_;
  std::deque<std::pair<int, Parcels>> arrived_;
  SignsOfLife signs_;
};

}  // namespace

std::unique_ptr<Mailbox> make_mpi_mailbox(MpiGroup group) { return std::make_unique<MpiMailbox>(std::move(group)); }

}  // namespace terngrad
