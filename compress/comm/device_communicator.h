// DeviceCommunicator: collectives between processes on device memory, in stream order.
#pragma once

#include <cstdint>
#include <memory>
#include <span>
#include <vector>

#include "kernels/runtime/device.h"
#include "kernels/tensor/element_type.h"

namespace terngrad {

/// Bytes [offset, offset + count) of a buffer.
struct ByteRange {
  std::int64_t offset = 0;
  std::int64_t count = 0;

  friend bool operator==(const ByteRange&, const ByteRange&) = default;
};

/// A buffer for an in-place all-gather: every rank has a whole buffer, and has filled its own part.
struct DeviceGather {
  std::uint8_t* buffer = nullptr;
  std::vector<ByteRange> parts;  // [size()] rank r's part; the same on all ranks. Parts do not overlap
};

/// A group of processes or threads ("ranks") with one device each. Every rank must call the same operations in the same
/// order. All memory is on the stream's device; operations are submitted to the stream and may run after the call
/// returns, so memory must stay valid until then. Except for vendor_sum they move bytes and combine integers, so their
/// results do not depend on the order of execution (contracts B1, B2). Errors: InvalidArgument if the call is wrong on
/// this rank, before anything is submitted; CommunicationError if the transport failed, which leaves the group
/// unusable.
class DeviceCommunicator {
 public:
  DeviceCommunicator() = default;
  virtual ~DeviceCommunicator() = default;
  DeviceCommunicator(const DeviceCommunicator&) = delete;
  DeviceCommunicator& operator=(const DeviceCommunicator&) = delete;

  virtual int rank() const = 0;
  virtual int size() const = 0;

  /// Gathers all the buffers in one submission: afterwards every rank's buffers hold every rank's parts.
  /// @throws InvalidArgument unless each buffer has one part per rank, with nonnegative offset and count
  void all_gather(std::span<const DeviceGather> gathers, Stream& stream);
  /// values[i] = sum over ranks of values[i], modulo 2^64; in place.
  void all_reduce_sum(std::span<std::uint64_t> values, Stream& stream);
  /// values[i] = max over ranks of values[i], in place.
  void all_reduce_max(std::span<std::uint32_t> values, Stream& stream);
  /// For all ranks s and r, copies bytes `to[r]` of rank s's `outgoing` to bytes `from[s]` of rank r's `incoming`. The
  /// buffers must not overlap.
  /// @param to, from  [size()] s's to[r].count equals r's from[s].count
  /// @throws InvalidArgument if a list does not have size() ranges, one is negative, or this rank's own two counts
  /// differ
  void all_to_all(const std::uint8_t* outgoing, std::span<const ByteRange> to, std::uint8_t* incoming,
                  std::span<const ByteRange> from, Stream& stream);
  /// Copies rank `root`'s bytes to all ranks, in place. @throws InvalidArgument if there is no such rank
  void broadcast(std::span<std::uint8_t> bytes, int root, Stream& stream);
  /// Element-wise sum over ranks, in place, by the all-reduce of the underlying library, as Communicator::vendor_sum.
  void vendor_sum(const FloatSpan& values, Stream& stream);

  /// Splits the ranks into groups with equal part, in the order of their ranks here; every rank calls it, in a thread
  /// of its own, and waits for the others. @param parts  [size()] part of each rank, the same on all ranks
  /// @returns this rank's group
  /// @throws InvalidArgument for another number of parts; NotSupported if the group cannot be split
  std::unique_ptr<DeviceCommunicator> split(std::span<const int> parts);

  /// Rehearsal mode, until called with false: operations reach no other rank, and every rank seems to have the same
  /// data as this one. Data from others are a copy of this rank's, cut or padded with zeros; reductions leave values
  /// unchanged. So a step can run once before any operation between ranks, and allocate and load all that it needs: in
  /// a process with several GPUs, doing that while one GPU waits for another can deadlock (see DeviceTrainer).
  void rehearse(bool rehearses) { rehearses_ = rehearses; }

  /// Checks, without waiting, if an operation submitted earlier has failed. Call it now and then while waiting for a
  /// stream with operations in it: if a peer is lost they may never end.
  /// @throws CommunicationError
  virtual void check() = 0;
  /// Aborts the group on this rank, after a failure here or on another rank: pending operations end with unspecified
  /// results, so that streams can be waited for. Only destruction may follow. Destroy graphs that have captured
  /// operations of the group first, or this call may wait for that, since NCCL counts them.
  virtual void abandon() noexcept {}

 protected:
  // The operations, with checked arguments; not called if there are no bytes to move, or one rank to split.
  virtual void submit_all_gather(std::span<const DeviceGather> gathers, Stream& stream) = 0;
  virtual void submit_all_reduce_sum(std::span<std::uint64_t> values, Stream& stream) = 0;
  virtual void submit_all_reduce_max(std::span<std::uint32_t> values, Stream& stream) = 0;
  virtual void submit_all_to_all(const std::uint8_t* outgoing, std::span<const ByteRange> to, std::uint8_t* incoming,
                                 std::span<const ByteRange> from, Stream& stream) = 0;
  virtual void submit_broadcast(std::span<std::uint8_t> bytes, int root, Stream& stream) = 0;
  /// @throws NotSupported if there is no such library, which is the default
  virtual void submit_vendor_sum(const FloatSpan& values, Stream& stream);
  /// @param rank, size  of this rank's group. @throws NotSupported if the group cannot be split, which is the default
  virtual std::unique_ptr<DeviceCommunicator> make_part(std::span<const int> parts, int rank, int size);

 private:
  bool rehearses_ = false;
};

/// A group of one, on any device.
std::unique_ptr<DeviceCommunicator> make_self_device_communicator();

}  // namespace terngrad
