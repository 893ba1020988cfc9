#include "compress/comm/mpi/mpi_operation.h"

#include <algorithm>
#include <array>
#include <cstring>
#include <sstream>

#include "compress/comm/mpi/message_chunks.h"
#include "kernels/runtime/errors.h"

namespace terngrad {
namespace {

using Purpose = MpiRequests::Purpose;

// Messages between two ranks with the same tag arrive in the order in which they were sent.
constexpr int kSizesTag = 2;
constexpr int kDataTag = 3;
constexpr int kHeadTag = 7;

constexpr std::uint64_t kMaxSizes = std::uint64_t{1} << 28;

const char* name_of(std::uint32_t kind) {
  static constexpr std::array kNames = {"all_gather",     "all_to_all", "all_reduce_sum",
                                        "all_reduce_max", "broadcast",  "barrier"};
  return kind < kNames.size() ? kNames[kind] : "an unknown operation";
}

std::span<const std::uint8_t> bytes_of(std::span<const std::uint64_t> sizes) {
  return {reinterpret_cast<const std::uint8_t*>(sizes.data()), sizes.size_bytes()};
}

}  // namespace

MpiOperation::MpiOperation(MpiGroup& group, MpiOperationKind kind)
    : group_(group),
      kind_(kind),
      number_(group.num_operations++),
      requests_(group, name(), number_),
      memory_(std::make_shared<Memory>()) {
  if (group_.is_broken) {
    TERNGRAD_THROW(CommunicationError, "[mpi] ", group_.name_of(group_.rank), ", ", name(),
                   ": an earlier operation failed, so the group cannot be used any more");
  }
  memory_->places.resize(index(group_.size));
  memory_->announcements = Buffer<std::uint8_t>(static_cast<std::int64_t>(kHeadBytes) * group_.size);
  keep_alive(memory_);
}

MpiOperation::~MpiOperation() {
  if (!has_ended_) group_.is_broken = true;
}

const char* MpiOperation::name() const { return name_of(static_cast<std::uint32_t>(kind_)); }

bool MpiOperation::fits(std::span<const std::uint64_t> sizes, std::span<const std::uint8_t> data) {
  return sizes.size() <= kHeadBytes / 8 && data.size() <= kHeadBytes &&
         sizeof(OperationHeader) + sizes.size_bytes() + data.size() <= kHeadBytes;
}

std::size_t MpiOperation::write_head(OperationHeader& header, std::span<const std::uint64_t> sizes,
                                     std::span<const std::uint8_t> data, std::span<std::uint8_t> head) const {
  header.number = number_;
  header.kind = static_cast<std::uint8_t>(kind_);
  header.num_sizes = static_cast<std::uint32_t>(sizes.size());
  header.data_bytes = data.size();
  header.chunk_bytes = group_.chunk_bytes;
  header.seal(sizes, data);
  std::memcpy(head.data(), &header, sizeof(header));
  if (header.holds_all == 0) return sizeof(header);
  std::size_t end = sizeof(header);
  for (const std::span<const std::uint8_t> part : {bytes_of(sizes), data}) {
    if (!part.empty()) std::memcpy(head.data() + end, part.data(), part.size());
    end += part.size();
  }
  return end;
}

void MpiOperation::send(int peer, std::span<const std::uint64_t> sizes, std::span<const std::uint8_t> data) {
  TERNGRAD_REQUIRE(sizes.size() <= kMaxSizes, "[mpi] an operation sends at most ", kMaxSizes, " sizes, got ",
                   sizes.size());
  OperationHeader header;
  header.holds_all = fits(sizes, data) ? 1 : 0;
  std::vector<std::uint8_t>& head = place(peer).sent_head;
  head.resize(sizeof(header) + (header.holds_all != 0 ? sizes.size_bytes() + data.size() : 0));
  write_head(header, sizes, data, head);
  requests_.send(peer, head, kHeadTag);
  if (header.holds_all != 0) return;
  for_each_piece(bytes_of(sizes), group_.chunk_bytes,
                 [&](std::span<const std::uint8_t> piece) { requests_.send(peer, piece, kSizesTag); });
  for_each_piece(data, group_.chunk_bytes,
                 [&](std::span<const std::uint8_t> piece) { requests_.send(peer, piece, kDataTag); });
}

void MpiOperation::announce(std::span<const std::uint64_t> sizes, std::span<const std::uint8_t> data, bool holds_all,
                            int root) {
  TERNGRAD_REQUIRE(!holds_all || fits(sizes, data), "[mpi] an announcement holds at most ", kHeadBytes, " bytes, got ",
                   sizes.size(), " sizes and ", data.size(), " bytes");
  OperationHeader header;
  header.holds_all = holds_all ? 1 : 0;
  header.root = static_cast<std::uint32_t>(root);
  const std::span<std::uint8_t> gathered = memory_->announcements.span();
  // End offsets of the gathered announcements, this rank's first.
  std::vector<std::size_t> ends = {write_head(header, holds_all ? sizes : sizes.first(0), data, gathered)};
  const auto after = [&](int distance) { return (group_.rank + distance) % group_.size; };
  for (int distance = 1; distance < group_.size; distance *= 2) {
    const int num_ranks = std::min(distance, group_.size - distance);
    const std::size_t begin = ends.back();
    requests_.set_num_arrived(distance);
    requests_.send(after(group_.size - distance), gathered.first(ends[index(num_ranks - 1)]), kMpiAnnouncementTag,
                   Purpose::kAnnouncementSend);
    requests_.receive(after(distance), gathered.subspan(begin, kHeadBytes * index(num_ranks)), kMpiAnnouncementTag,
                      Purpose::kHead);
    requests_.await({Purpose::kHead});
    const auto received = gathered.first(begin + requests_.received_bytes(after(distance)));
    for (int i = 0; i < num_ranks; ++i) {
      const int peer = after(distance + i);
      ends.push_back(ends.back() + read_head(peer, after(distance), received.subspan(ends.back())));
    }
    if (ends.back() != received.size()) refuse(after(distance), after(distance), "it holds more than announcements");
  }
  requests_.set_num_arrived(group_.size);
  // Differences are reported only after all announcements have been passed on, so that every rank finds them. MPI sends
  // long messages only while this rank waits.
  requests_.await({Purpose::kAnnouncementSend});
  for (int distance = 1; distance < group_.size; ++distance) {
    require_same_operation(after(distance));
    if (place(after(distance)).header.root != header.root) {
      group_.is_broken = true;
      TERNGRAD_THROW(CommunicationError, "[mpi] ", name(), ": ", group_.name_of(after(distance)),
                     " has another root than ", root);
    }
  }
}

void MpiOperation::refuse(int peer, int sender, const std::string& problem) const {
  group_.is_broken = true;
  const std::string origin = peer == sender ? "" : ", the announcement of " + group_.name_of(peer) + ",";
  TERNGRAD_THROW(CommunicationError, "[mpi] ", name(), ": what came from ", group_.name_of(sender), origin,
                 " is not as this version of the program sends it: ", problem);
}

std::size_t MpiOperation::read_head(int peer, int sender, std::span<const std::uint8_t> message) {
  OperationHeader& header = place(peer).header;
  const std::string problem = read_operation_header(message, header);
  if (!problem.empty()) refuse(peer, sender, problem);
  const std::span<const std::uint8_t> content = message.subspan(sizeof(header));
  require_sound(peer, sender, content.size());
  std::vector<std::uint64_t>& sizes = place(peer).sizes;
  sizes.resize(header.num_sizes);
  if (header.holds_all == 0) return sizeof(header);
  const std::size_t size_bytes = std::size_t{header.num_sizes} * 8;
  if (size_bytes > 0) std::memcpy(sizes.data(), content.data(), size_bytes);
  place(peer).data = content.subspan(size_bytes, header.data_bytes);
  require_content(peer, sender);
  return sizeof(header) + size_bytes + header.data_bytes;
}

void MpiOperation::require_sound(int peer, int sender, std::size_t room) const {
  const OperationHeader& header = place(peer).header;
  const bool is_sound = header.num_sizes <= kMaxSizes && is_sound_message(header.data_bytes, header.chunk_bytes) &&
                        (header.holds_all == 0 || (header.num_sizes <= room / 8 &&
                                                   header.data_bytes <= room - std::size_t{header.num_sizes} * 8));
  if (is_sound) return;
  std::ostringstream problem;
  problem << "its header is inconsistent: " << header.num_sizes << " sizes, " << header.data_bytes
          << " bytes in pieces of " << header.chunk_bytes << ", " << room << " of them in its message";
  refuse(peer, sender, problem.str());
}

void MpiOperation::require_same_operation(int peer) const {
  const OperationHeader& header = place(peer).header;
  if (header.number == number_ && header.kind == static_cast<std::uint32_t>(kind_)) return;
  group_.is_broken = true;
  TERNGRAD_THROW(CommunicationError, "[mpi] ", group_.name_of(peer), " is in operation ", header.number, ", ",
                 name_of(header.kind), ", but ", group_.name_of(group_.rank), " in operation ", number_, ", ", name(),
                 ": all ranks must do the same operations in the same order");
}

void MpiOperation::require_content(int peer, int sender) const {
  const std::string problem = check_operation_content(place(peer).header, place(peer).sizes, place(peer).data);
  if (!problem.empty()) refuse(peer, sender, problem);
}

void MpiOperation::require_bytes(int peer, std::size_t bytes) const {
  if (bytes == data_bytes(peer)) return;
  group_.is_broken = true;
  TERNGRAD_THROW(CommunicationError, "[mpi] ", name(), ": ", group_.name_of(peer), " sends ", data_bytes(peer),
                 " bytes, ", group_.name_of(group_.rank), " expects ", bytes);
}

void MpiOperation::require_parcels(int peer) const {
  if (are_sizes_of(data_bytes(peer), sizes(peer))) return;
  group_.is_broken = true;
  TERNGRAD_THROW(CommunicationError, "[mpi] ", name(), ": the ", sizes(peer).size(), " sizes that ",
                 group_.name_of(peer), " sends are not those of ", data_bytes(peer), " bytes");
}

void MpiOperation::await_heads(const std::function<bool(int peer)>& sends_directly) {
  std::vector<int> peers;
  for (int peer = 0; peer < group_.size; ++peer) {
    if (peer == group_.rank || !sends_directly(peer)) continue;
    peers.push_back(peer);
    place(peer).head.resize(kHeadBytes);
    requests_.receive(peer, place(peer).head, kHeadTag, Purpose::kHead);
  }
  requests_.await({Purpose::kHead});
  for (const int peer : peers) {
    const auto message = std::span<const std::uint8_t>(place(peer).head).first(requests_.received_bytes(peer));
    if (read_head(peer, peer, message) != message.size()) refuse(peer, peer, "it holds more than its header says");
    require_same_operation(peer);
    if (holds_all(peer)) continue;
    std::vector<std::uint64_t>& sizes = place(peer).sizes;
    const std::span<std::uint8_t> bytes = {reinterpret_cast<std::uint8_t*>(sizes.data()), sizes.size() * 8};
    for_each_piece(bytes, place(peer).header.chunk_bytes,
                   [&](std::span<std::uint8_t> piece) { requests_.receive(peer, piece, kSizesTag, Purpose::kHead); });
  }
  requests_.await({Purpose::kHead});
  for (const int peer : peers) require_content(peer, peer);
}

void MpiOperation::receive(int peer, std::span<std::uint8_t> data) {
  require_bytes(peer, data.size());
  if (data.empty()) return;
  if (holds_all(peer)) {
    std::memcpy(data.data(), place(peer).data.data(), data.size());
    return;
  }
  for_each_piece(data, place(peer).header.chunk_bytes,
                 [&](std::span<std::uint8_t> piece) { requests_.receive(peer, piece, kDataTag, Purpose::kReceive); });
}

void MpiOperation::finish() {
  requests_.await({Purpose::kHead, Purpose::kReceive, Purpose::kSend});
  has_ended_ = true;
}

}  // namespace terngrad
