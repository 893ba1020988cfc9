#include "compress/comm/mpi/mpi_operation.h"

#include <algorithm>
#include <array>
#include <cstring>

#include "compress/comm/mpi/message_chunks.h"
#include "compress/comm/mpi/poll_backoff.h"
#include "kernels/runtime/errors.h"

namespace terngrad {
namespace {

// Messages between two ranks with the same tag arrive in the order in which they were sent.
constexpr int kSizesTag = 2;
constexpr int kDataTag = 3;
constexpr int kWaitingTag = 4;

constexpr std::uint64_t kMaxSizes = std::uint64_t{1} << 28;

const char* name_of(std::uint32_t kind) {
  static constexpr std::array kNames = {"all_gather",     "all_to_all", "all_reduce_sum",
                                        "all_reduce_max", "broadcast",  "barrier"};
  return kind < kNames.size() ? kNames[kind] : "an unknown operation";
}

}  // namespace

MpiOperation::MpiOperation(MpiGroup& group, MpiOperationKind kind)
    : group_(group),
      kind_(kind),
      number_(group.num_operations++),
      liveness_(group.size, group.timeout_seconds),
      all_places_(std::make_shared<std::vector<Place>>(index(group.size))),
      places_(*all_places_) {
  if (group_.is_broken) {
    TERNGRAD_THROW(CommunicationError, "[mpi] ", group_.name_of(group_.rank), ", ", name(),
                   ": an earlier operation failed, so the group cannot be used any more");
  }
  for (int peer = 0; peer < group_.size; ++peer) {
    if (peer == group_.rank) continue;
    Place& place = places_[index(peer)];
    place.head.resize(kHeadBytes);
    try {
      post_receive(peer, place.head, kMpiHeadTag, Purpose::kHead);
    } catch (...) {
      abandon();
      throw;
    }
  }
}

MpiOperation::~MpiOperation() { abandon(); }

void MpiOperation::abandon() noexcept {
  bool is_under_way = false;
  for (std::size_t i = 0; i < requests_.size(); ++i) {
    if (requests_[i] == MPI_REQUEST_NULL) continue;
    is_under_way = true;
    // A receive whose message is on its way cannot be cancelled, and will be written.
    if (requested_[i].purpose != Purpose::kSend) MPI_Cancel(&requests_[i]);
    MPI_Request_free(&requests_[i]);
  }
  requests_.clear();
  requested_.clear();
  if (!is_under_way) return;
  // What is still to come would be taken for a part of the next operation.
  group_.is_broken = true;
  abandon_to_mpi(all_places_);
  for (std::shared_ptr<void>& memory : kept_) abandon_to_mpi(std::move(memory));
}

const char* MpiOperation::name() const { return terngrad::name_of(static_cast<std::uint32_t>(kind_)); }

void MpiOperation::post_send(int peer, std::span<const std::uint8_t> data, int tag, Purpose purpose) {
  requests_.push_back(MPI_REQUEST_NULL);
  requested_.push_back({peer, purpose});
  group_.require_success(MPI_Isend(data.data(), static_cast<int>(data.size()), MPI_BYTE, peer, tag, group_.communicator,
                                   &requests_.back()),
                         name());
}

void MpiOperation::post_receive(int peer, std::span<std::uint8_t> data, int tag, Purpose purpose) {
  requests_.push_back(MPI_REQUEST_NULL);
  requested_.push_back({peer, purpose});
  group_.require_success(MPI_Irecv(data.data(), static_cast<int>(data.size()), MPI_BYTE, peer, tag, group_.communicator,
                                   &requests_.back()),
                         name());
}

void MpiOperation::send(int peer, std::span<const std::uint64_t> sizes, std::span<const std::uint8_t> data) {
  OperationHeader header;
  header.number = number_;
  header.kind = static_cast<std::uint8_t>(kind_);
  TERNGRAD_REQUIRE(sizes.size() <= kMaxSizes, "[mpi] an operation sends at most ", kMaxSizes, " sizes, got ",
                   sizes.size());
  header.num_sizes = static_cast<std::uint32_t>(sizes.size());
  header.data_bytes = data.size();
  header.chunk_bytes = group_.chunk_bytes;
  const bool fits = sizes.size() <= kHeadBytes / 8 && data.size() <= kHeadBytes &&
                    sizeof(header) + sizes.size_bytes() + data.size() <= kHeadBytes;
  header.holds_all = fits ? 1 : 0;
  header.seal(sizes, data);
  std::vector<std::uint8_t>& message = places_[index(peer)].sent_head;
  message.resize(sizeof(header) + (fits ? sizes.size_bytes() + data.size() : 0));
  std::memcpy(message.data(), &header, sizeof(header));
  if (fits) {
    if (!sizes.empty()) std::memcpy(message.data() + sizeof(header), sizes.data(), sizes.size_bytes());
    if (!data.empty()) {
      std::memcpy(message.data() + sizeof(header) + sizes.size_bytes(), data.data(), data.size());
    }
  }
  post_send(peer, message, kMpiHeadTag, Purpose::kSend);
  if (fits) return;
  const std::span<const std::uint8_t> size_bytes = {reinterpret_cast<const std::uint8_t*>(sizes.data()),
                                                    sizes.size_bytes()};
  for_each_piece(size_bytes, group_.chunk_bytes,
                 [&](std::span<const std::uint8_t> piece) { post_send(peer, piece, kSizesTag, Purpose::kSend); });
  for_each_piece(data, group_.chunk_bytes,
                 [&](std::span<const std::uint8_t> piece) { post_send(peer, piece, kDataTag, Purpose::kSend); });
}

void MpiOperation::refuse(int peer, const std::string& problem) const {
  group_.is_broken = true;
  TERNGRAD_THROW(CommunicationError, "[mpi] ", name(), ": what came from ", group_.name_of(peer),
                 " is not as this version of the program sends it: ", problem);
}

bool MpiOperation::read_head(int peer) {
  Place& place = places_[index(peer)];
  OperationHeader& header = place.header;
  const std::string problem = read_operation_header({place.head.data(), place.head_bytes}, header);
  if (!problem.empty()) refuse(peer, problem);
  if (header.number != number_ || header.kind != static_cast<std::uint32_t>(kind_)) {
    group_.is_broken = true;
    TERNGRAD_THROW(CommunicationError, "[mpi] ", group_.name_of(peer), " is in operation ", header.number, ", ",
                   terngrad::name_of(header.kind), ", but ", group_.name_of(group_.rank), " in operation ", number_,
                   ", ", name(), ": all ranks must do the same operations in the same order");
  }
  require_sound(peer);
  place.sizes.resize(header.num_sizes);
  if (header.holds_all == 0) return header.num_sizes > 0;
  if (header.num_sizes > 0) {
    std::memcpy(place.sizes.data(), place.head.data() + sizeof(header), std::size_t{header.num_sizes} * 8);
  }
  place.data_in_head = sizeof(header) + std::size_t{header.num_sizes} * 8;
  return false;
}

void MpiOperation::require_sound(int peer) const {
  const OperationHeader& header = places_[index(peer)].header;
  const std::size_t room = places_[index(peer)].head_bytes - sizeof(header);
  const bool is_sound = header.num_sizes <= kMaxSizes && is_sound_message(header.data_bytes, header.chunk_bytes) &&
                        (header.holds_all != 0 ? header.num_sizes <= room / 8 &&
                                                     header.data_bytes == room - std::size_t{header.num_sizes} * 8
                                               : room == 0);
  if (is_sound) return;
  group_.is_broken = true;
  TERNGRAD_THROW(CommunicationError, "[mpi] ", name(), ": the header of ", group_.name_of(peer),
                 " is inconsistent: ", header.num_sizes, " sizes, ", header.data_bytes, " bytes in pieces of ",
                 header.chunk_bytes, ", ", room, " of them in its message");
}

void MpiOperation::require_content(int peer) const {
  const Place& place = places_[index(peer)];
  std::span<const std::uint8_t> data;
  if (place.data_in_head != 0) {
    data = std::span(place.head).subspan(place.data_in_head, place.header.data_bytes);
  }
  const std::string problem = check_operation_content(place.header, place.sizes, data);
  if (!problem.empty()) refuse(peer, problem);
}

void MpiOperation::require_parcels(int peer) const {
  const Place& place = places_[index(peer)];
  if (are_sizes_of(place.header.data_bytes, place.sizes)) return;
  group_.is_broken = true;
  TERNGRAD_THROW(CommunicationError, "[mpi] ", name(), ": the ", place.sizes.size(), " sizes that ",
                 group_.name_of(peer), " sends are not those of ", place.header.data_bytes, " bytes");
}

void MpiOperation::await_heads() {
  static constexpr std::array kHeads = {Purpose::kHead};
  await(kHeads);
  for (int peer = 0; peer < group_.size; ++peer) {
    if (peer == group_.rank || !read_head(peer)) continue;
    Place& place = places_[index(peer)];
    const std::span<std::uint8_t> bytes = {reinterpret_cast<std::uint8_t*>(place.sizes.data()), place.sizes.size() * 8};
    for_each_piece(bytes, place.header.chunk_bytes,
                   [&](std::span<std::uint8_t> piece) { post_receive(peer, piece, kSizesTag, Purpose::kHead); });
  }
  await(kHeads);
  for (int peer = 0; peer < group_.size; ++peer) {
    if (peer != group_.rank) require_content(peer);
  }
}

void MpiOperation::receive(int peer, std::span<std::uint8_t> data) {
  const Place& place = places_[index(peer)];
  if (data.size() != place.header.data_bytes) {
    group_.is_broken = true;
    TERNGRAD_THROW(CommunicationError, "[mpi] ", name(), ": ", group_.name_of(peer), " sends ", place.header.data_bytes,
                   " bytes, ", group_.name_of(group_.rank), " expects ", data.size());
  }
  if (data.empty()) return;
  if (place.data_in_head != 0) {
    std::memcpy(data.data(), place.head.data() + place.data_in_head, data.size());
    return;
  }
  for_each_piece(data, place.header.chunk_bytes,
                 [&](std::span<std::uint8_t> piece) { post_receive(peer, piece, kDataTag, Purpose::kReceive); });
}

void MpiOperation::finish() {
  static constexpr std::array kAll = {Purpose::kHead, Purpose::kReceive, Purpose::kSend};
  await(kAll);
}

bool MpiOperation::is_waiting_for(std::span<const Purpose> purposes) const {
  return std::ranges::any_of(requested_,
                             [&](const Request& request) { return std::ranges::count(purposes, request.purpose) > 0; });
}

bool MpiOperation::complete_some() {
  completed_.resize(requests_.size());
  statuses_.resize(requests_.size());
  int count = 0;
  const int result =
      MPI_Testsome(static_cast<int>(requests_.size()), requests_.data(), &count, completed_.data(), statuses_.data());
  if (result == MPI_ERR_IN_STATUS) {
    for (int i = 0; i < count; ++i) {
      const auto which = static_cast<std::size_t>(completed_[static_cast<std::size_t>(i)]);
      const int error = statuses_[static_cast<std::size_t>(i)].MPI_ERROR;
      if (error == MPI_SUCCESS || error == MPI_ERR_PENDING) continue;
      const std::string operation = std::string(name()) +
                                    (requested_[which].purpose == Purpose::kSend ? " to " : " from ") +
                                    group_.name_of(requested_[which].peer);
      group_.require_success(error, operation.c_str());
    }
  }
  group_.require_success(result, name());
  if (count == MPI_UNDEFINED || count == 0) return false;
  for (int i = 0; i < count; ++i) {
    const auto which = static_cast<std::size_t>(completed_[static_cast<std::size_t>(i)]);
    Place& place = places_[index(requested_[which].peer)];
    liveness_.record_activity(requested_[which].peer);
    if (requested_[which].purpose != Purpose::kHead || place.head_bytes != 0) continue;
    int bytes = 0;
    MPI_Get_count(&statuses_[static_cast<std::size_t>(i)], MPI_BYTE, &bytes);
    place.head_bytes = static_cast<std::size_t>(std::max(bytes, 0));
  }
  std::size_t kept = 0;
  for (std::size_t i = 0; i < requests_.size(); ++i) {
    if (requests_[i] == MPI_REQUEST_NULL) continue;
    requests_[kept] = requests_[i];
    requested_[kept++] = requested_[i];
  }
  requests_.resize(kept);
  requested_.resize(kept);
  return true;
}

void MpiOperation::tell_that_it_waits() {
  has_told_ = true;
  group_.send_note(group_.waiting_note, number_, kWaitingTag, name());
}

void MpiOperation::read_notes(int tag, const std::function<void(int peer)>& heard) {
  group_.read_notes(tag, name(), [&](int peer, std::uint64_t number) {
    // Neighbours in the list of operations: where one rank ends an operation, another may be in the next. What is older
    // was told about something else.
    if (number + 1 >= number_) heard(peer);
  });
}

void MpiOperation::hear_who_waits() {
  read_notes(kWaitingTag, [this](int peer) { places_[index(peer)].waits_itself = true; });
}

void MpiOperation::read_heartbeats() {
  read_notes(kMpiHeartbeatTag, [this](int peer) { liveness_.record_activity(peer); });
}

void MpiOperation::check_deadline() {
  liveness_.look();
  const auto seconds_of_silence = [&](const Request& request) { return liveness_.seconds_of_silence(request.peer); };
  const auto longest_silence = [&] {
    double longest = 0;
    for (const Request& request : requested_) longest = std::max(longest, seconds_of_silence(request));
    return longest;
  };
  if (longest_silence() < group_.timeout_seconds / 4) return;
  read_heartbeats();
  const double longest = longest_silence();
  if (longest < group_.timeout_seconds / 4) return;
  if (!has_told_) tell_that_it_waits();
  hear_who_waits();
  const auto is_late = [&](const Request& request) { return seconds_of_silence(request) > group_.timeout_seconds; };
  if (longest <= group_.timeout_seconds || liveness_.in_grace_period()) return;
  // The ones to name: those that are silent, if there are any, and of these first those that have not come to this
  // operation, because they keep others from taking what they are sent.
  const auto is_silent = [&](const Request& request) {
    return is_late(request) && !places_[index(request.peer)].waits_itself;
  };
  const bool some_are_silent = std::ranges::any_of(requested_, is_silent);
  // One that waits itself is named without another only: one that will be late in a moment is that other.
  const auto will_be_silent = [&](const Request& request) {
    return seconds_of_silence(request) > group_.timeout_seconds / 2 && !places_[index(request.peer)].waits_itself;
  };
  if (!some_are_silent && std::ranges::any_of(requested_, will_be_silent)) return;
  const auto is_suspect = [&](const Request& request) {
    return some_are_silent ? is_silent(request) : is_late(request);
  };
  auto worst = Purpose::kSend;
  for (const Request& request : requested_) {
    if (is_suspect(request)) worst = std::min(worst, request.purpose);
  }
  const std::string peers = group_.names_where([&](int peer) {
    return std::ranges::any_of(requested_, [&](const Request& request) {
      return request.peer == peer && request.purpose == worst && is_suspect(request);
    });
  });
  group_.is_broken = true;
  const Silence silence = worst == Purpose::kSend ? Silence::kTakesNothing : Silence::kSendsNothing;
  TERNGRAD_THROW(CommunicationError, "[mpi] ", name(), ": ", group_.silence_text(silence, peers, !some_are_silent));
}

void MpiOperation::await(std::span<const Purpose> purposes) {
  PollBackoff patience;
  while (is_waiting_for(purposes)) {
    if (complete_some()) {
      liveness_.look();
      patience.reset();
    } else {
      check_deadline();
      patience.wait();
    }
  }
}

}  // namespace terngrad
