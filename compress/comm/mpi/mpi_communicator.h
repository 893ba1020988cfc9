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

struct MpiOptions {
  /// A peer from which nothing has come, and to which nothing could be sent, for so long while this rank waits for it
  /// has failed. At least 0.01.
  double timeout_seconds = 600;
  /// Longer data travel in pieces of this size: MPI counts in int, and each piece that arrives is a sign of life.
  std::size_t chunk_bytes = std::size_t{4} << 20;
};

/// All ranks of a launch. Its operations are built of non-blocking messages between pairs of ranks, so that a wait has
/// a deadline for each peer and an error names rank, host and operation. (Of a non-blocking collective of MPI itself no
/// rank knows whom it waits for: one that has done its part and computes is like one that is lost; and it is undefined
/// where ranks call different ones.) Every rank announces in each operation which one it is in and what it sends, to
/// all in ceil(log2 size) messages that hold small data of sums, broadcasts and gathers too. Data of any size.
/// Reductions are sums and maxima of integers, so results do not depend on the order in which messages come. Of long
/// data a rank reduces a contiguous shard, or gets it from the root of a broadcast, and sends it to all: 2 (size - 1) /
/// size times the data from each rank or from the root. set_timeout replaces MpiOptions::timeout_seconds, within the
/// same limits.
class MpiCommunicator : public Communicator {
 public:
  /// The host of each rank.
  virtual const std::vector<std::string>& hosts() const = 0;
  /// How many ranks share this rank's host, itself included, and its place among them.
  virtual int local_size() const = 0;
  virtual int local_rank() const = 0;
  /// Divides the ranks into groups by `part`, in the order of their ranks here; a collective call.
  /// @returns this rank's group, with the same options
  virtual std::unique_ptr<MpiCommunicator> split(int part) = 0;
  /// Makes a mailbox for the same ranks, with the same options; a collective call. Its messages meet no others.
  virtual std::unique_ptr<Mailbox> make_mailbox() = 0;
  /// Whether the rank after this one, after the last one rank 0, has begun the operation that this rank begins next.
  /// Does not wait.
  virtual bool next_rank_has_come() = 0;
  /// Sends a number to all other ranks, beside all operations and without waiting.
  virtual void send_control(std::uint64_t word) = 0;
  /// The last number that another rank has sent so; nothing if none has come. Does not wait.
  virtual std::optional<std::uint64_t> poll_control() = 0;
};

/// Joins all ranks of the launch; a collective call. A MpiSession must exist and outlive it.
/// @throws NotSupported in a build without MPI, InvalidArgument for options out of range, CommunicationError
std::unique_ptr<MpiCommunicator> make_mpi_communicator(const MpiOptions& options = {});

}  // namespace terngrad
