#include "compress/mpi_group.h"

#include <array>
#include <mutex>
#include <utility>

#include "kernels/errors.h"

namespace terngrad {

std::string MpiGroup::name_of(int peer) const {
  return "rank " + std::to_string(peer) + " (host " + hosts.at(static_cast<std::size_t>(peer)) + ")";
}

void MpiGroup::require_success(int result, const char* operation) {
  if (result == MPI_SUCCESS) return;
  is_broken = true;
  std::array<char, MPI_MAX_ERROR_STRING> text{};
  int length = 0;
  MPI_Error_string(result, text.data(), &length);
  TERNGRAD_THROW(CommunicationError, "[mpi] ", name_of(rank), ", ", operation, ": ",
                 std::string(text.data(), static_cast<std::size_t>(length)));
}

void MpiGroup::send_note(const std::uint64_t& note, int tag, const char* operation) {
  for (int peer = 0; peer < size; ++peer) {
    if (peer == rank) continue;
    MPI_Request request = MPI_REQUEST_NULL;
    require_success(MPI_Isend(&note, sizeof(note), MPI_BYTE, peer, tag, communicator, &request), operation);
    // It is smaller than what MPI waits for a receiver with.
    MPI_Request_free(&request);
  }
}

void MpiGroup::read_notes(int tag, const char* operation,
                          const std::function<void(int peer, std::uint64_t note)>& heard) {
  for (;;) {
    int has_come = 0;
    MPI_Status status;
    require_success(MPI_Iprobe(MPI_ANY_SOURCE, tag, communicator, &has_come, &status), operation);
    if (has_come == 0) return;
    std::uint64_t note = 0;
    require_success(MPI_Recv(&note, sizeof(note), MPI_BYTE, status.MPI_SOURCE, tag, communicator, MPI_STATUS_IGNORE),
                    operation);
    heard(status.MPI_SOURCE, note);
  }
}

void MpiGroup::tell_busy() {
  const auto now = std::chrono::steady_clock::now();
  if (is_broken || std::chrono::duration<double>(now - told_busy).count() < timeout_seconds / 8) return;
  told_busy = now;
  busy_note = num_operations;
  send_note(busy_note, kMpiBusyTag, "tell_busy");
}

void abandon_to_mpi(std::shared_ptr<void> memory) {
  static std::mutex mutex;
  static std::vector<std::shared_ptr<void>> abandoned;
  const std::lock_guard lock(mutex);
  abandoned.push_back(std::move(memory));
}

}  // namespace terngrad
