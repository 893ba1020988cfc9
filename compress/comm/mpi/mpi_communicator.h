// MpiCommunicator: collectives between processes by MPI.
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "compress/comm/communicator.h"
#include "compress/comm/mailbox.h"

namespace terngrad {

/// Options of make_mpi_communicator.
struct MpiOptions {
  /// A wait fails after this time without a message from the peers or a heartbeat. At least 0.01.
  double timeout_seconds = 600;
  /// Longer data travel in pieces of this size: MPI counts in int, and each piece that arrives shows that the peer is
  /// alive.
  std::size_t chunk_bytes = std::size_t{4} << 20;
};

/// The ranks of an MPI launch. Operations consist of non-blocking messages between pairs of ranks, so that every wait
/// has a timeout and errors name rank, host and operation. MPI's own non-blocking collectives are not used, because a
/// rank in one does not know which peer it waits for (a peer that has done its part and computes looks like a lost
/// one), and mismatched calls are undefined. In each operation every rank announces to all others the operation and the
/// sizes that it sends, in ceil(log2 size) messages, which also hold the data of sums, broadcasts and gathers if these
/// are small. Data may have any size. Reductions are sums and maxima of integers, so results do not depend on the order
/// of messages. For long data, a rank reduces one contiguous shard (or receives it from the root of a broadcast) and
/// sends it to all: each rank, or the root, sends 2 (size - 1) / size times the data. set_timeout replaces
/// MpiOptions::timeout_seconds, within the same limits.
class MpiCommunicator : public Communicator {
 public:
  /// The host of each rank.
  virtual const std::vector<std::string>& hosts() const = 0;
  /// Number of ranks on this rank's host, including itself, and this rank's index among them.
  virtual int local_size() const = 0;
  virtual int local_rank() const = 0;
  /// As Communicator::split, with the same options.
  virtual std::unique_ptr<MpiCommunicator> split_mpi(int part) = 0;
  std::unique_ptr<Communicator> split(int part) final { return split_mpi(part); }
  /// Makes a mailbox for the same ranks and options; a collective call. Its messages are separate from all others.
  virtual std::unique_ptr<Mailbox> make_mailbox() = 0;
  /// True if the next rank (cyclic) has begun the operation that this rank begins next. Does not wait.
  virtual bool next_rank_has_come() = 0;
  /// Sends a number to all other ranks, independently of operations and without waiting.
  virtual void send_control(std::uint64_t word) = 0;
  /// Last number from another rank's send_control; none if nothing was received yet. Does not wait.
  virtual std::optional<std::uint64_t> poll_control() = 0;
};

/// Joins all ranks of the launch; a collective call. An MpiSession must exist and outlive it.
/// @throws NotSupported in a build without MPI, InvalidArgument for options out of range, CommunicationError
std::unique_ptr<MpiCommunicator> make_mpi_communicator(const MpiOptions& options = {});

}  // namespace terngrad
