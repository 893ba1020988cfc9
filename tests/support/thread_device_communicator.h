// A DeviceCommunicator whose ranks are threads of one process that share a device.
#pragma once

#include <algorithm>
#include <cstdint>
#include <memory>
#include <span>
#include <utility>
#include <vector>

#include "compress/comm/device_communicator.h"
#include "kernels/runtime/copy.h"
#include "support/thread_communicator.h"

namespace terngrad::testing {

/// Synchronizes streams, unlike a real DeviceCommunicator: the ranks meet on the host.
class ThreadDeviceCommunicator final : public DeviceCommunicator {
 public:
  ThreadDeviceCommunicator(std::shared_ptr<Meeting> meeting, int rank) : meeting_(std::move(meeting)), rank_(rank) {}
  int rank() const override { return rank_; }
  int size() const override { return meeting_->size(); }
  void check() override {}
  /// Makes the waiting and later calls of all ranks fail.
  void abandon() noexcept override { meeting_->abort(); }

 protected:
  std::unique_ptr<DeviceCommunicator> make_part(std::span<const int> parts, int rank, int) override {
    return std::make_unique<ThreadDeviceCommunicator>(meeting_->split(parts, rank_), rank);
  }
  void submit_all_gather(std::span<const DeviceGather> gathers, Stream& stream) override {
    exchange(gathers, stream, [&](int other, std::span<const DeviceGather> theirs) {
      if (other == rank_) return;
      for (std::size_t i = 0; i < gathers.size(); ++i) {
        const ByteRange part = gathers[i].parts[static_cast<std::size_t>(other)];
        move_bytes(theirs[i].buffer + part.offset, gathers[i].buffer + part.offset, part.count, stream);
      }
    });
  }
  void submit_all_reduce_sum(std::span<std::uint64_t> values, Stream& stream) override {
    reduce(values, stream, [](std::uint64_t a, std::uint64_t b) { return a + b; });
  }
  void submit_all_reduce_max(std::span<std::uint32_t> values, Stream& stream) override {
    reduce(values, stream, [](std::uint32_t a, std::uint32_t b) { return std::max(a, b); });
  }
  void submit_all_to_all(const std::uint8_t* outgoing, std::span<const ByteRange> to, std::uint8_t* incoming,
                         std::span<const ByteRange> from, Stream& stream) override {
    const Outgoing mine{outgoing, to};
    exchange(mine, stream, [&](int other, const Outgoing& theirs) {
      const ByteRange source = theirs.to[static_cast<std::size_t>(rank_)];
      const ByteRange target = from[static_cast<std::size_t>(other)];
      move_bytes(theirs.bytes + source.offset, incoming + target.offset, target.count, stream);
    });
  }
  void submit_broadcast(std::span<std::uint8_t> bytes, int root, Stream& stream) override {
    exchange(bytes, stream, [&](int other, std::span<std::uint8_t> theirs) {
      if (other == root && other != rank_) copy<std::uint8_t>(theirs, bytes, stream);
    });
  }

  void submit_vendor_sum(const FloatSpan& values, Stream& stream) override {
    const auto num_bytes = static_cast<std::int64_t>(element_bytes(values.type)) * values.count;
    std::vector<std::uint8_t> host(static_cast<std::size_t>(num_bytes));
    FloatSum sum(values);
    exchange(static_cast<std::uint8_t*>(values.values), stream, [&](int, std::uint8_t* theirs) {
      move_bytes(theirs, host.data(), num_bytes, stream);
      stream.synchronize();
      sum.add(host.data());
    });
    sum.write(host.data());
    move_bytes(host.data(), static_cast<std::uint8_t*>(values.values), num_bytes, stream);
    stream.synchronize();
  }

 private:
  struct Outgoing {
    const std::uint8_t* bytes;
    std::span<const ByteRange> to;
  };
  static void move_bytes(const std::uint8_t* from, std::uint8_t* to, std::int64_t count, Stream& stream) {
    const auto bytes = static_cast<std::size_t>(count);
    copy<std::uint8_t>({from, bytes}, std::span<std::uint8_t>(to, bytes), stream);
  }
  /// Publishes `mine` and calls take(rank, theirs) for all ranks in order.
  template <class T, class Take>
  void exchange(T mine, Stream& stream, const Take& take) {
    stream.synchronize();
    meeting_->place(rank_) = &mine;
    meeting_->wait();
    for (int other = 0; other < size(); ++other) take(other, *static_cast<T*>(meeting_->place(other)));
    stream.synchronize();
    meeting_->wait();
  }
  template <class T, class Combine>
  void reduce(std::span<T> values, Stream& stream, const Combine& combine) {
    std::vector<T> result(values.size(), T{});
    std::vector<T> host(values.size());
    exchange(values, stream, [&](int, std::span<T> theirs) {
      copy<T>(theirs, std::span<T>(host), stream);
      stream.synchronize();
      for (std::size_t i = 0; i < host.size(); ++i) result[i] = combine(result[i], host[i]);
    });
    copy<T>(result, values, stream);
    stream.synchronize();
  }
  std::shared_ptr<Meeting> meeting_;
  int rank_;
};

/// Runs body(communicator) on `size` ranks concurrently. @returns each rank's exception or null
template <class Body>
std::vector<std::exception_ptr> run_device_ranks(int size, const Body& body) {
  return run_threads<ThreadDeviceCommunicator>(size, body);
}

}  // namespace terngrad::testing
