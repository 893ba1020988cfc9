// Communicator: collectives between processes.
#pragma once

#include <cstdint>
#include <memory>
#include <span>
#include <vector>

#include "kernels/runtime/buffer.h"
#include "kernels/tensor/element_type.h"

namespace terngrad {

/// Byte strings of several senders, in order, in one buffer; each begins at a multiple of 8.
class Parcels {
 public:
  /// Forgets the parcels but keeps the storage.
  void clear();
  /// Appends a copy.
  void append(std::span<const std::uint8_t> bytes);
  /// Appends parcels of these sizes that hold anything, for a transport to fill.
  /// @returns their storage: each parcel, followed by what makes its length a multiple of 8
  std::span<std::uint8_t> extend(std::span<const std::uint64_t> sizes);
  /// Appends a parcel of that many bytes, for the caller to fill. @returns its bytes
  std::span<std::uint8_t> append_room(std::uint64_t size);
  std::size_t count() const { return sizes_.size(); }
  /// Of each parcel, in bytes.
  std::span<const std::uint64_t> sizes() const { return sizes_; }
  /// The storage of all parcels, as `extend` would give it.
  std::span<const std::uint8_t> storage() const;
  std::span<const std::uint8_t> parcel(std::size_t index) const;
  std::span<std::uint8_t> parcel(std::size_t index);

 private:
  Buffer<std::uint64_t> words_;  // uninitialised beyond used_: growing must not cost a pass over memory
  std::size_t used_ = 0;         // words
  std::vector<std::size_t> offsets_;
  std::vector<std::uint64_t> sizes_;
  void reserve(std::size_t words);
};

/// What a message of that many bytes takes among others on its way: up to the next multiple of 8.
constexpr std::int64_t parcel_bytes(std::uint64_t message_bytes) {
  return static_cast<std::int64_t>((message_bytes + 7) / 8 * 8);
}

/// Floating-point numbers of a type, to be worked on in place.
struct FloatSpan {
  void* values = nullptr;  // [count], aligned to their size
  std::int64_t count = 0;
  ElementType type = ElementType::kFloat32;
};

/// A group of processes ("ranks"). Every rank calls the same operations in the same order. Failures throw
/// CommunicationError and leave the group unusable.
class Communicator {
 public:
  virtual ~Communicator() = default;
  virtual int rank() const = 0;
  virtual int size() const = 0;
  /// Whether nobody else sees what this rank hands over: then parcels need not be made.
  virtual bool is_alone() const { return size() == 1; }

  /// Every rank gets every rank's parcels, in order of ranks. Ranks may send different numbers and sizes.
  /// @param mine  its storage may be taken: holds anything afterwards
  virtual void all_gather(Parcels& mine, Parcels& all) = 0;
  /// Rank r gets what each rank put in `outgoing[r]`, in order of ranks.
  /// @param outgoing  [size()] their storage may be taken
  virtual void all_to_all(std::span<Parcels> outgoing, Parcels& incoming) = 0;
  /// Element-wise sum over ranks, wrapping; in place. Exact, so the order does not matter.
  virtual void all_reduce_sum(std::span<std::uint64_t> values) = 0;
  /// Element-wise maximum over ranks, in place.
  virtual void all_reduce_max(std::span<std::uint32_t> values) = 0;
  /// Rank `root`'s values to all ranks, in place.
  virtual void broadcast(std::span<std::uint8_t> values, int root) = 0;
  virtual void barrier() = 0;
  /// Tells ranks that wait for this one that it is busy between two operations, not lost: for work that may take longer
  /// than they wait, again and again during it. Does not wait itself; does nothing where no wait has a deadline.
  virtual void send_heartbeat() {}
  /// From the next operation on, a rank that is waited for and silent for so long has failed. Does nothing where a
  /// group has no such limit. @throws InvalidArgument unless above 0
  virtual void set_timeout(double seconds);
  /// Element-wise sum over ranks, in place, by the all-reduce that the library below was tuned for: the baseline to
  /// compare exchanges with. Order and rounding of the sum are the library's, those of 16 bits at each addition of two.
  /// @throws NotSupported where there is no such library, which is what this does unless overridden
  virtual void vendor_sum(const FloatSpan& values);
};

/// A group of one: this process, without a launcher.
std::unique_ptr<Communicator> make_self_communicator();

/// Which of N workers a rank owns: a contiguous range, ranges in order of ranks, sizes differing by at most one.
struct WorkerRange {
  int num_workers = 1;  // N, of all ranks
  int first_local_worker = 0;
  int num_local_workers = 1;

  friend bool operator==(const WorkerRange&, const WorkerRange&) = default;
};

/// The range of rank `rank` of `size`: from floor(N rank / size) to floor(N (rank + 1) / size).
/// @throws InvalidArgument if num_workers < size, or rank is not in [0, size)
WorkerRange worker_range(int num_workers, int rank, int size);

/// N workers over the ranks of a communicator, spread by worker_range over those that are not servers.
struct WorkerGroup : WorkerRange {
  std::shared_ptr<Communicator> communicator;
  int num_servers = 0;  // the last ranks, which have no workers

  /// The workers of a rank; of a server an empty range behind the last worker.
  WorkerRange range_of(int rank) const;
  bool is_server() const { return num_local_workers == 0; }
};

/// @param num_servers  how many ranks, the last ones, serve (ShardOwners::kServers) and have no workers
/// @throws InvalidArgument if num_servers is not in [0, communicator->size()), or there are fewer workers than other
/// ranks
WorkerGroup make_worker_group(int num_workers, std::shared_ptr<Communicator> communicator, int num_servers = 0);

}  // namespace terngrad
