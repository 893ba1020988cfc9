#include "compress/comm/mpi/mpi_requests.h"

#include <algorithm>
#include <string>
#include <utility>

#include "compress/comm/mpi/poll_backoff.h"
#include "kernels/runtime/errors.h"

namespace terngrad {
namespace {

constexpr int kWaitingTag = 4;
// A rank that waits tells the number of its operation above that of the rank for which it waits, and whether it gives
// up.
constexpr int kRankBits = 24;
constexpr std::uint64_t kGivesUp = std::uint64_t{1} << (kRankBits - 1);
// How long an operation must have taken, in parts of the timeout, before a rank answers those that wait: operations
// that take their usual time cost no notes, even where notes of an earlier one are read in them.
constexpr double kAnswerPart = 1.0 / 64;

bool is_send(MpiRequests::Purpose purpose) {
  return purpose == MpiRequests::Purpose::kSend || purpose == MpiRequests::Purpose::kAnnouncementSend;
}

}  // namespace

MpiRequests::MpiRequests(MpiGroup& group, const char* operation, std::uint64_t number)
    : group_(group),
      operation_(operation),
      number_(number),
      num_arrived_(group.size),
      liveness_(group.size, group.timeout_seconds),
      waits_(group.size, group.timeout_seconds),
      begin_(PeerLiveness::Clock::now()),
      last_check_(begin_),
      received_bytes_(static_cast<std::size_t>(group.size)) {}

MpiRequests::~MpiRequests() {
  bool is_under_way = false;
  for (std::size_t i = 0; i < requests_.size(); ++i) {
    if (requests_[i] == MPI_REQUEST_NULL) continue;
    is_under_way = true;
    // A receive whose message is on its way cannot be cancelled, and will be written.
    if (!is_send(requested_[i].purpose)) MPI_Cancel(&requests_[i]);
    MPI_Request_free(&requests_[i]);
  }
  if (!is_under_way) return;
  // What is still to come would be taken for a part of the next operation.
  group_.is_broken = true;
  for (std::shared_ptr<void>& memory : kept_) abandon_to_mpi(std::move(memory));
}

void MpiRequests::send(int peer, std::span<const std::uint8_t> data, int tag, Purpose purpose) {
  requests_.push_back(MPI_REQUEST_NULL);
  requested_.push_back({peer, purpose});
  liveness_.record_activity(peer);
  group_.require_success(MPI_Isend(data.data(), static_cast<int>(data.size()), MPI_BYTE, peer, tag, group_.communicator,
                                   &requests_.back()),
                         operation_);
}

void MpiRequests::receive(int peer, std::span<std::uint8_t> data, int tag, Purpose purpose) {
  requests_.push_back(MPI_REQUEST_NULL);
  requested_.push_back({peer, purpose});
  liveness_.record_activity(peer);
  group_.require_success(MPI_Irecv(data.data(), static_cast<int>(data.size()), MPI_BYTE, peer, tag, group_.communicator,
                                   &requests_.back()),
                         operation_);
}

void MpiRequests::await(std::initializer_list<Purpose> purposes) {
  PollBackoff patience;
  while (is_waiting_for(purposes)) {
    if (complete_some()) {
      look(PeerLiveness::Clock::now());
      patience.reset();
      if (!is_waiting_for(purposes)) return;
    } else {
      patience.wait();
    }
    // Also while messages flow: others may wait for this rank.
    check_deadline();
  }
}

bool MpiRequests::is_waiting_for(std::initializer_list<Purpose> purposes) const {
  return std::ranges::any_of(requested_,
                             [&](const Request& request) { return std::ranges::count(purposes, request.purpose) > 0; });
}

bool MpiRequests::complete_some() {
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
      const std::string operation = std::string(operation_) + (is_send(requested_[which].purpose) ? " to " : " from ") +
                                    group_.name_of(requested_[which].peer);
      group_.require_success(error, operation.c_str());
    }
  }
  group_.require_success(result, operation_);
  if (count == MPI_UNDEFINED || count == 0) return false;
  has_progressed_ = true;
  liveness_.record_activity(group_.rank);
  for (int i = 0; i < count; ++i) {
    const Request& ended = requested_[static_cast<std::size_t>(completed_[static_cast<std::size_t>(i)])];
    liveness_.record_activity(ended.peer);
    if (ended.purpose != Purpose::kHead) continue;
    int bytes = 0;
    MPI_Get_count(&statuses_[static_cast<std::size_t>(i)], MPI_BYTE, &bytes);
    received_bytes_[static_cast<std::size_t>(ended.peer)] = static_cast<std::size_t>(std::max(bytes, 0));
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

void MpiRequests::look(PeerLiveness::Clock::time_point now) {
  liveness_.look(now);
  waits_.look(now);
}

double MpiRequests::longest_silence() const {
  double longest = 0;
  for (const Request& request : requested_) longest = std::max(longest, liveness_.seconds_of_silence(request.peer));
  return longest;
}

void MpiRequests::check_deadline() {
  const auto now = PeerLiveness::Clock::now();
  // Between two messages of an operation that goes well this rank only polls for them. It must look more often than
  // what PeerLiveness takes for an absence.
  const std::chrono::duration<double> since = now - last_check_;
  if (since.count() < std::min(1e-3, group_.timeout_seconds / 40)) return;
  last_check_ = now;
  look(now);
  hear_who_waits();
  const bool waits_long = longest_silence() >= group_.timeout_seconds / 4;
  if (waits_long || others_wait_) read_heartbeats();
  // Others' waiting is answered soon, since theirs may have begun long before, and also where messages flow here.
  const std::chrono::duration<double> taken = now - begin_;
  const bool answers = others_wait_ && taken.count() >= group_.timeout_seconds * kAnswerPart;
  if (waits_long || answers) tell_that_it_waits();
  if (longest_silence() > group_.timeout_seconds && !liveness_.in_grace_period()) throw_if_silent();
}

void MpiRequests::tell_that_it_waits() {
  const auto comes_before = [this](const Request& a, const Request& b) {
    if (a.purpose != b.purpose) return a.purpose < b.purpose;
    return liveness_.seconds_of_silence(a.peer) > liveness_.seconds_of_silence(b.peer);
  };
  const int target = std::ranges::min_element(requested_, comes_before)->peer;
  const auto now = PeerLiveness::Clock::now();
  // Again and again, since a rank that has told may be lost later.
  const double pause = group_.timeout_seconds / (target == told_target_ ? 8 : 64);
  if (std::chrono::duration<double>(now - last_told_).count() < pause) return;
  last_told_ = now;
  told_target_ = target;
  waits_.record(group_.rank, target, true);
  // The heartbeat first: who reads that this rank waits, which may close a circle, finds it then.
  if (std::exchange(has_progressed_, false)) group_.send_note(group_.heartbeat, number_, kMpiHeartbeatTag, operation_);
  group_.send_note(group_.waiting_note, number_ << kRankBits | static_cast<std::uint64_t>(target), kWaitingTag,
                   operation_);
}

void MpiRequests::tell_that_it_has_ended() {
  hear_who_waits();
  if (others_wait_) read_heartbeats();  // lest they pile up where this rank is the last to come, again and again
  if (tells_end_) group_.send_note(group_.heartbeat, number_ + 1, kMpiHeartbeatTag, operation_);
}

void MpiRequests::hear_number(std::uint64_t number) {
  if (number <= number_) return;
  all_have_arrived_ = true;
  num_arrived_ = group_.size;
}

void MpiRequests::hear_who_waits() {
  group_.read_notes(kWaitingTag, operation_, [this](int peer, std::uint64_t note) {
    const std::uint64_t number = note >> kRankBits;
    const auto target = static_cast<int>(note & (kGivesUp - 1));
    // Where one rank ends an operation, another may be in the next. What is older was told about something else.
    if (number + 1 < number_ || target >= group_.size) return;
    others_wait_ = true;
    tells_end_ |= number >= number_;
    hear_number(number);
    if ((note & kGivesUp) != 0) {
      waits_.record_failure(peer, target);
    } else {
      waits_.record(peer, target, number >= number_);
    }
  });
}

void MpiRequests::read_heartbeats() {
  group_.read_notes(kMpiHeartbeatTag, operation_, [this](int peer, std::uint64_t number) {
    if (number + 1 >= number_) liveness_.record_activity(peer);
    hear_number(number);
  });
}

std::vector<std::optional<MpiRequests::Purpose>> MpiRequests::find_suspects() const {
  std::vector<std::optional<Purpose>> suspects(static_cast<std::size_t>(group_.size));
  const auto suspect = [&](int rank, Purpose purpose) {
    const int end = waits_.end_of(rank);
    if (end == group_.rank || waits_.is_waiting(end)) return;
    std::optional<Purpose>& known = suspects[static_cast<std::size_t>(end)];
    known = std::min(known.value_or(purpose), end == rank ? purpose : Purpose::kHead);
  };
  for (const Request& request : requested_) suspect(request.peer, request.purpose);
  for (int i = num_arrived_; i < group_.size; ++i) {
    const int rank = (group_.rank + i) % group_.size;
    // One that has arrived may have done everything and be in no operation now.
    if (waits_.is_waiting(rank) || !waits_.has_arrived(rank)) suspect(rank, Purpose::kHead);
  }
  return suspects;
}

bool MpiRequests::is_awaited(int rank) const {
  return std::ranges::any_of(requested_, [&](const Request& request) { return request.peer == rank; });
}

void MpiRequests::throw_if_silent() {
  const std::vector<std::optional<Purpose>> suspects = find_suspects();
  const auto purpose_of = [&](int rank) { return suspects[static_cast<std::size_t>(rank)]; };
  const auto is_silent = [&](int rank) {
    return purpose_of(rank) && is_late(rank) && waits_.seconds_of_silence(rank) > group_.timeout_seconds;
  };
  const bool all_wait = std::ranges::none_of(suspects, [](const auto& purpose) { return purpose.has_value(); });
  std::optional<Purpose> worst;
  for (int rank = 0; rank < group_.size; ++rank) {
    if (is_silent(rank)) worst = std::min(worst.value_or(Purpose::kSend), *purpose_of(rank));
    // As long as something flows between some of them, the circle is only momentary.
    const bool is_in_circle = rank == group_.rank || is_awaited(rank) || !has_arrived(rank) || waits_.is_waiting(rank);
    if (all_wait && is_in_circle && !is_late(rank)) return;
  }
  // Who is suspected and not silent for long enough will be, or gives a sign of life.
  if (!worst && !all_wait) return;
  // Of the silent ones first those that do not send: they keep others from taking what they are sent.
  const auto is_named = [&](int rank) {
    return rank != group_.rank && (all_wait ? is_awaited(rank) : is_silent(rank) && purpose_of(rank) == worst);
  };
  const std::string names = group_.names_where(is_named);
  // Who waits for this rank is to name the same one, for which this rank will not wait any more.
  int named = 0;
  while (!is_named(named)) ++named;
  group_.send_note(group_.waiting_note, number_ << kRankBits | kGivesUp | static_cast<std::uint64_t>(named),
                   kWaitingTag, operation_);
  if (all_wait) worst = std::ranges::min_element(requested_, {}, &Request::purpose)->purpose;
  group_.is_broken = true;
  const Silence silence = is_send(*worst) ? Silence::kTakesNothing : Silence::kSendsNothing;
  TERNGRAD_THROW(CommunicationError, "[mpi] ", operation_, ": ", group_.silence_text(silence, names, all_wait));
}

}  // namespace terngrad
