// DeviceCommunicator: collectives between processes on memory of their devices, in the order of a stream.
#pragma once

#include <cstdint>
#include <memory>
#include <span>
#include <vector>

#include "kernels/runtime/device.h"

namespace terngrad {

/// Bytes [offset, offset + count) of a buffer.
struct ByteRange {
  std::int64_t offset = 0;
  std::int64_t count = 0;

  friend bool operator==(const ByteRange&, const ByteRange&) = default;
};

/// A buffer that is gathered in place: every rank holds all of it, and has filled its own part.
struct DeviceGather {
  std::uint8_t* buffer = nullptr;
  std::vector<ByteRange> parts;  // [size()] rank r's part; the same on all ranks. Parts do not overlap.
};

/// A group of processes or threads ("ranks") that each drive one device. Every rank calls the same operations in the
/// same order. All memory is of the stream's device; operations are submitted to the stream and may run after the call
/// has returned, and memory must stay what it is until then. They move bytes and combine integers, so their results do
/// not depend on their order (contracts B1, B2). Errors throw: InvalidArgument where the call itself is wrong on this
/// rank, before anything is submitted; CommunicationError where the transport failed, which leaves the group unusable.
class DeviceCommunicator {
 public:
  DeviceCommunicator() = default;
  virtual ~DeviceCommunicator() = default;
  DeviceCommunicator(const DeviceCommunicator&) = delete;
  DeviceCommunicator& operator=(const DeviceCommunicator&) = delete;

  virtual int rank() const = 0;
  virtual int size() const = 0;

  /// Gathers all the buffers, in one submission: afterwards every rank's buffers hold every rank's parts.
  /// @throws InvalidArgument unless each buffer has one part, of no negative offset or count, for each rank
  void all_gather(std::span<const DeviceGather> gathers, Stream& stream);
  /// values[i] = sum over ranks of values[i], modulo 2^64; in place.
  void all_reduce_sum(std::span<std::uint64_t> values, Stream& stream);
  /// values[i] = largest of all ranks' values[i], in place.
  void all_reduce_max(std::span<std::uint32_t> values, Stream& stream);
  /// Rank s's bytes `to[r]` of `outgoing` become rank r's bytes `from[s]` of `incoming`, for all s and r. The buffers
  /// do not overlap.
  /// @param to, from  [size()] s's to[r].count equals r's from[s].count
  /// @throws InvalidArgument if a list has not size() ranges, one is negative, or this rank's own two counts differ
  void all_to_all(const std::uint8_t* outgoing, std::span<const ByteRange> to, std::uint8_t* incoming,
                  std::span<const ByteRange> from, Stream& stream);
  /// Rank `root`'s bytes to all ranks, in place. @throws InvalidArgument if there is no such rank
  void broadcast(std::span<std::uint8_t> bytes, int root, Stream& stream);

  /// From here on operations reach no other rank, until this is called with false: every rank seems to have what this
  /// one has. What others would send is a copy of this rank's, cut or filled up with zeros; reductions leave values as
  /// they are. So a step can run once before any operation between ranks, and allocate and load all that it needs:
  /// where a process has several GPUs, doing that while one waits for another can stop both (see DeviceTrainer).
  void rehearse(bool rehearses) { rehearses_ = rehearses; }

  /// Looks, without waiting, whether an operation submitted earlier has failed. A rank that waits for a stream with
  /// operations in it should look now and then: with a peer lost they may never end.
  /// @throws CommunicationError
  virtual void check() = 0;
  /// Gives the group up on this rank, because it or another one cannot continue: operations under way end, with
  /// whatever results, so that streams can be waited for. Nothing but destruction may follow. Graphs that have captured
  /// operations of the group must be gone on this rank, or it may wait for that: NCCL counts them.
  virtual void abandon() noexcept {}

 protected:
  // The operations, with arguments that have been checked; those without bytes to move do not come here.
  virtual void submit_all_gather(std::span<const DeviceGather> gathers, Stream& stream) = 0;
  virtual void submit_all_reduce_sum(std::span<std::uint64_t> values, Stream& stream) = 0;
  virtual void submit_all_reduce_max(std::span<std::uint32_t> values, Stream& stream) = 0;
  virtual void submit_all_to_all(const std::uint8_t* outgoing, std::span<const ByteRange> to, std::uint8_t* incoming,
                                 std::span<const ByteRange> from, Stream& stream) = 0;
  virtual void submit_broadcast(std::span<std::uint8_t> bytes, int root, Stream& stream) = 0;

 private:
  bool rehearses_ = false;
};

/// A group of one, on any device.
std::unique_ptr<DeviceCommunicator> make_self_device_communicator();

}  // namespace terngrad
