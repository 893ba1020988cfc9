// Communicator: collectives between processes.
#pragma once

#include <cstdint>
#include <functional>
#include <memory>
#include <span>
#include <vector>

#include "kernels/runtime/buffer.h"
#include "kernels/tensor/element_type.h"

namespace terngrad {

/// Byte strings of one or more senders, in order, in one buffer; each begins at a multiple of 8.
class Parcels {
 public:
  /// Removes the parcels but keeps the storage.
  void clear();
  /// Appends a copy.
  void append(std::span<const std::uint8_t> bytes);
  /// Appends parcels of these sizes with unspecified contents, for a transport to fill.
  /// @returns their storage, with each parcel padded to a multiple of 8 bytes
  std::span<std::uint8_t> extend(std::span<const std::uint64_t> sizes);
  /// Appends a parcel of this size with unspecified contents. @returns its bytes
  std::span<std::uint8_t> append_room(std::uint64_t size);
  std::size_t count() const { return sizes_.size(); }
  /// Size of each parcel in bytes, without padding.
  std::span<const std::uint64_t> sizes() const { return sizes_; }
  /// Storage of all parcels, in the layout that `extend` returns.
  std::span<const std::uint8_t> storage() const;
  std::span<const std::uint8_t> parcel(std::size_t index) const;
  std::span<std::uint8_t> parcel(std::size_t index);

 private:
  Buffer<std::uint64_t> words_;  // uninitialized beyond used_: growing must not cost a pass over memory
  std::size_t used_ = 0;         // in words
  std::vector<std::size_t> offsets_;
  std::vector<std::uint64_t> sizes_;
  void reserve(std::size_t words);
};

/// Size of a message in Parcels: rounded up to a multiple of 8 bytes.
constexpr std::int64_t parcel_bytes(std::uint64_t message_bytes) {
  return static_cast<std::int64_t>((message_bytes + 7) / 8 * 8);
}

/// Collective operations in a group of processes ("ranks"). Every rank must call the same operations in the same order.
/// Failures throw CommunicationError and leave the group unusable.
class Communicator {
 public:
  virtual ~Communicator() = default;
  virtual int rank() const = 0;
  virtual int size() const = 0;
  /// True if this rank is the only one and no one observes its parcels, so that they need not be made.
  virtual bool is_alone() const { return size() == 1; }

  /// Every rank gets every rank's parcels, in order of ranks. Ranks may send different numbers and sizes.
  /// @param mine  its storage may be reused: unspecified afterwards
  virtual void all_gather(Parcels& mine, Parcels& all) = 0;
  /// Rank r gets `outgoing[r]` of every rank, in order of ranks.
  /// @param outgoing  [size()] their storage may be reused
  virtual void all_to_all(std::span<Parcels> outgoing, Parcels& incoming) = 0;
  /// Element-wise sum over ranks modulo 2^64, in place. Exact, so the order does not matter.
  virtual void all_reduce_sum(std::span<std::uint64_t> values) = 0;
  /// Element-wise maximum over ranks, in place.
  virtual void all_reduce_max(std::span<std::uint32_t> values) = 0;
  /// Copies rank `root`'s values to all ranks, in place.
  virtual void broadcast(std::span<std::uint8_t> values, int root) = 0;
  virtual void barrier() = 0;
  /// Tells ranks that wait for this one that it is busy between two operations, not lost. Call it repeatedly during
  /// work that may exceed their timeout. Does not wait; has no effect if waits have no timeout.
  virtual void send_heartbeat() {}
  /// Calls `also` now and then while an operation of this rank waits for others: so it can tell ranks of another group,
  /// who wait for it, that it is alive. No effect if waits have no timeout.
  virtual void while_waiting(const std::function<void()>& /*also*/) {}
  /// Sets the timeout of all later operations: a rank that is waited for and stays silent longer has failed. No effect
  /// if the group has no timeouts. @throws InvalidArgument unless seconds > 0
  virtual void set_timeout(double seconds);
  /// Splits the ranks into groups with equal `part`, in the order of their ranks here; a collective call.
  /// @returns this rank's group. @throws NotSupported if the group cannot be split, which is the default
  virtual std::unique_ptr<Communicator> split(int part);
  /// Element-wise sum over ranks, in place, by the all-reduce of the underlying library: a baseline for exchanges. The
  /// library determines order and rounding of the sum; 16-bit sums are rounded at each addition.
  /// @throws NotSupported if there is no such library, which is the default
  virtual void vendor_sum(const FloatSpan& values);
};

/// A group of one: this process, without a launcher.
std::unique_ptr<Communicator> make_self_communicator();

/// Workers of a rank: a contiguous range of N workers. Ranges are in order of ranks, with sizes that differ by at most
/// 1.
struct WorkerRange {
  int num_workers = 1;  // N, over all ranks
  int first_local_worker = 0;
  int num_local_workers = 1;

  friend bool operator==(const WorkerRange&, const WorkerRange&) = default;
};

/// Range of `rank` among `size` ranks: from floor(N rank / size) to floor(N (rank + 1) / size).
/// @throws InvalidArgument if num_workers < size, or rank is not in [0, size)
WorkerRange worker_range(int num_workers, int rank, int size);

/// N workers over the ranks of a communicator, spread by worker_range over all ranks except servers.
struct WorkerGroup : WorkerRange {
  std::shared_ptr<Communicator> communicator;
  int num_servers = 0;  // the last ranks, which have no workers

  /// Worker range of a rank; for a server an empty range after the last worker.
  WorkerRange range_of(int rank) const;
  bool is_server() const { return num_local_workers == 0; }
};

/// @param num_servers  number of ranks, the last ones, that serve (ShardOwners::kServers) and have no workers
/// @throws InvalidArgument if num_servers is not in [0, communicator->size()), or if there are fewer workers than ranks
/// that are not servers
WorkerGroup make_worker_group(int num_workers, std::shared_ptr<Communicator> communicator, int num_servers = 0);

}  // namespace terngrad
