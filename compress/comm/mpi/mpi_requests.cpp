#include "compress/comm/mpi/mpi_requests.h"

#include <algorithm>
#include <string>
#include <utility>

#include "compress/comm/mpi/poll_backoff.h"
#include "kernels/runtime/errors.h"

namespace terngrad {
namespace {

bool is_send(MpiRequests::Purpose purpose) {
  return purpose == MpiRequests::Purpose::kSend || purpose == MpiRequests::Purpose::kAnnouncementSend;
}

}  // namespace

MpiRequests::MpiRequests(MpiGroup& group, const char* operation, std::uint64_t number)
    : group_(group),
      operation_(operation),
      number_(number),
      num_arrived_(group.size),
      silence_(1, group.timeout_seconds),
      last_check_(PeerLiveness::Clock::now()),
      received_bytes_(static_cast<std::size_t>(group.size)) {}

MpiRequests::~MpiRequests() {
  bool is_under_way = false;
  for (std::size_t i = 0; i < requests_.size(); ++i) {
    if (requests_[i] == MPI_REQUEST_NULL) continue;
    is_under_way = true;
    // A receive whose message is already arriving cannot be cancelled, and writes to its memory.
    if (!is_send(requested_[i].purpose)) MPI_Cancel(&requests_[i]);
    MPI_Request_free(&requests_[i]);
  }
  if (!is_under_way) return;
  // Messages that arrive later would be taken for a part of the next operation.
  group_.is_broken = true;
  for (std::shared_ptr<void>& memory : kept_) abandon_to_mpi(std::move(memory));
}

void MpiRequests::send(int peer, std::span<const std::uint8_t> data, int tag, Purpose purpose) {
  requests_.push_back(MPI_REQUEST_NULL);
  requested_.push_back({peer, purpose});
  silence_.record_activity(0);
  group_.require_success(MPI_Isend(data.data(), static_cast<int>(data.size()), MPI_BYTE, peer, tag, group_.communicator,
                                   &requests_.back()),
                         operation_);
}

void MpiRequests::receive(int peer, std::span<std::uint8_t> data, int tag, Purpose purpose) {
  requests_.push_back(MPI_REQUEST_NULL);
  requested_.push_back({peer, purpose});
  silence_.record_activity(0);
  group_.require_success(MPI_Irecv(data.data(), static_cast<int>(data.size()), MPI_BYTE, peer, tag, group_.communicator,
                                   &requests_.back()),
                         operation_);
}

void MpiRequests::await(std::initializer_list<Purpose> purposes) {
  PollBackoff backoff;
  while (is_waiting_for(purposes)) {
    if (complete_some()) {
      backoff.reset();
      if (!is_waiting_for(purposes)) return;
    } else {
      backoff.wait();
    }
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
  silence_.record_activity(0);
  for (int i = 0; i < count; ++i) {
    const Request& ended = requested_[static_cast<std::size_t>(completed_[static_cast<std::size_t>(i)])];
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

void MpiRequests::check_deadline() {
  const auto now = PeerLiveness::Clock::now();
  // Looks are rare, so that polling stays fast, but must be more frequent than the pause that PeerLiveness takes for an
  // absence.
  const std::chrono::duration<double> since = now - last_check_;
  if (since.count() < std::min(1e-3, group_.timeout_seconds / 40)) return;
  last_check_ = now;
  if (group_.while_waiting) group_.while_waiting();
  silence_.look(now);
  if (silence_.seconds_of_silence(0) < group_.timeout_seconds / 4) return;
  group_.read_notes(kMpiHeartbeatTag, operation_, [this](int, std::uint64_t number) {
    if (number + 1 >= number_) silence_.record_activity(0);
  });
  if (silence_.seconds_of_silence(0) <= group_.timeout_seconds || silence_.in_grace_period()) return;
  group_.is_broken = true;
  TERNGRAD_THROW(CommunicationError, "[mpi] ", operation_, " (operation ", number_,
                 "): ", group_.silence_text(group_.names_where([this](int rank) { return is_missed(rank); })));
}

bool MpiRequests::is_missed(int rank) const {
  const bool has_arrived = (rank - group_.rank + group_.size) % group_.size < num_arrived_;
  return !has_arrived || std::ranges::any_of(requested_, [&](const Request& request) { return request.peer == rank; });
}

}  // namespace terngrad
