#include "compress/comm/mpi/mpi_group.h"

#include <array>
#include <mutex>
#include <sstream>
#include <utility>

#include "kernels/runtime/errors.h"
#include "kernels/tensor/crc32c.h"

namespace terngrad {
namespace {

std::uint32_t checksum_of(std::uint64_t value) {
  return crc32c({reinterpret_cast<const std::uint8_t*>(&value), sizeof(value)});
}

}  // namespace

std::string MpiGroup::name_of(int peer) const {
  const auto index = static_cast<std::size_t>(peer);
  return "rank " + std::to_string(launch_ranks.empty() ? peer : launch_ranks.at(index)) + " (host " + hosts.at(index) +
         ")";
}

std::string MpiGroup::silence_text(const std::string& peers) const {
  std::ostringstream text;
  text << name_of(rank) << " has heard nothing from " << peers << " for " << timeout_seconds << " seconds";
  if (peers.find(", ") != std::string::npos) text << "; some of these may only wait for others";
  return text.str();
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

void MpiGroup::send_note(MpiNote& note, std::uint64_t value, int tag, const char* operation) {
  note = {.value = value, .checksum = checksum_of(value)};
  for (int peer = 0; peer < size; ++peer) {
    if (peer == rank) continue;
    MPI_Request request = MPI_REQUEST_NULL;
    require_success(MPI_Isend(&note, sizeof(note), MPI_BYTE, peer, tag, communicator, &request), operation);
    // MPI sends messages of this size without waiting for the receiver.
    MPI_Request_free(&request);
  }
}

void MpiGroup::read_notes(int tag, const char* operation,
                          const std::function<void(int peer, std::uint64_t value)>& heard) {
  for (;;) {
    int has_come = 0;
    MPI_Status status;
    require_success(MPI_Iprobe(MPI_ANY_SOURCE, tag, communicator, &has_come, &status), operation);
    if (has_come == 0) return;
    MpiNote note;
    require_success(MPI_Recv(&note, sizeof(note), MPI_BYTE, status.MPI_SOURCE, tag, communicator, MPI_STATUS_IGNORE),
                    operation);
    if (note.checksum != checksum_of(note.value)) {
      is_broken = true;
      TERNGRAD_THROW(CommunicationError, "[mpi] ", operation, ": a note of ", name_of(status.MPI_SOURCE),
                     " is damaged: its checksum is ", note.checksum, ", not ", checksum_of(note.value));
    }
    heard(status.MPI_SOURCE, note.value);
  }
}

void MpiGroup::send_heartbeat() {
  const auto now = std::chrono::steady_clock::now();
  if (is_broken || std::chrono::duration<double>(now - last_heartbeat).count() < timeout_seconds / 8) return;
  last_heartbeat = now;
  send_note(heartbeat, num_operations, kMpiHeartbeatTag, "send_heartbeat");
}

void abandon_to_mpi(std::shared_ptr<void> memory) {
  static std::mutex mutex;
  static std::vector<std::shared_ptr<void>> abandoned;
  const std::lock_guard lock(mutex);
  abandoned.push_back(std::move(memory));
}

}  // namespace terngrad
