// A DeviceCommunicator whose ranks are threads of one process with an emulated GPU each. Operations run and wait in
// streams, as NCCL's do.
#pragma once

#include <cuda_runtime.h>

#include <algorithm>
#include <cstdint>
#include <cstring>
#include <functional>
#include <memory>
#include <span>
#include <utility>
#include <vector>

#include "compress/comm/device_communicator.h"
#include "tests/support/thread_communicator.h"

namespace terngrad::testing {

/// Operations can be captured in graphs. After abandon(), results of pending operations are unspecified.
class StreamCommunicator final : public DeviceCommunicator {
 public:
  StreamCommunicator(std::shared_ptr<Meeting> meeting, int rank) : meeting_(std::move(meeting)), rank_(rank) {}
  int rank() const override { return rank_; }
  int size() const override { return meeting_->size(); }
  void check() override {}
  void abandon() noexcept override { meeting_->abort(); }

 protected:
  void submit_all_gather(std::span<const DeviceGather> gathers, Stream& stream) override {
    submit(stream, "all_gather",
           [this, mine = std::vector<DeviceGather>(gathers.begin(), gathers.end())](const auto& exchange) {
             exchange(&mine, [&](int other, const void* shown) {
               const auto& theirs = *static_cast<const std::vector<DeviceGather>*>(shown);
               if (other == rank_) return;
               for (std::size_t i = 0; i < mine.size(); ++i) {
                 const ByteRange part = mine[i].parts[static_cast<std::size_t>(other)];
                 std::memcpy(mine[i].buffer + part.offset, theirs[i].buffer + part.offset,
                             static_cast<std::size_t>(part.count));
               }
             });
           });
  }
  void submit_all_reduce_sum(std::span<std::uint64_t> values, Stream& stream) override {
    reduce(values, stream, "all_reduce_sum", [](std::uint64_t a, std::uint64_t b) { return a + b; });
  }
  void submit_all_reduce_max(std::span<std::uint32_t> values, Stream& stream) override {
    reduce(values, stream, "all_reduce_max", [](std::uint32_t a, std::uint32_t b) { return std::max(a, b); });
  }
  void submit_all_to_all(const std::uint8_t* outgoing, std::span<const ByteRange> to, std::uint8_t* incoming,
                         std::span<const ByteRange> from, Stream& stream) override {
    submit(stream, "all_to_all",
           [this, mine = Outgoing{outgoing, {to.begin(), to.end()}}, incoming,
            from = std::vector<ByteRange>(from.begin(), from.end())](const auto& exchange) {
             exchange(&mine, [&](int other, const void* shown) {
               const auto& theirs = *static_cast<const Outgoing*>(shown);
               const ByteRange there = theirs.to[static_cast<std::size_t>(rank_)];
               std::memcpy(incoming + from[static_cast<std::size_t>(other)].offset, theirs.bytes + there.offset,
                           static_cast<std::size_t>(there.count));
             });
           });
  }
  void submit_broadcast(std::span<std::uint8_t> bytes, int root, Stream& stream) override {
    submit(stream, "broadcast", [this, bytes, root](const auto& exchange) {
      exchange(&bytes, [&](int other, const void* shown) {
        if (other != root || other == rank_) return;
        std::ranges::copy(*static_cast<const std::span<std::uint8_t>*>(shown), bytes.begin());
      });
    });
  }

 private:
  struct Outgoing {
    const std::uint8_t* bytes;
    std::vector<ByteRange> to;
  };
  using Take = std::function<void(int rank, const void* shown)>;
  using Exchange = std::function<void(const void* mine, const Take& take)>;

  /// Runs work(exchange) in the stream. exchange(mine, take) publishes `mine` and calls take(rank, theirs) for all
  /// ranks in order.
  template <class Work>
  void submit(Stream& stream, const char* name, Work work) {
    simt::submit(static_cast<cudaStream_t>(stream.native()), [this, name, work = std::move(work)] {
      const simt::StreamWait wait(name);
      try {
        work(Exchange([&](const void* mine, const Take& take) {
          meeting_->place(rank_) = const_cast<void*>(mine);
          meeting_->wait();
          for (int other = 0; other < size(); ++other) take(other, meeting_->place(other));
          meeting_->wait();
        }));
      } catch (const CommunicationError&) {
        // abandon() was called; the stream does not fail.
      }
    });
  }
  template <class T, class Combine>
  void reduce(std::span<T> values, Stream& stream, const char* name, const Combine& combine) {
    submit(stream, name, [values, combine](const auto& exchange) {
      const std::vector<T> own(values.begin(), values.end());
      std::vector<T> result(values.size(), T{});
      exchange(&own, [&](int, const void* shown) {
        const auto& theirs = *static_cast<const std::vector<T>*>(shown);
        for (std::size_t i = 0; i < result.size(); ++i) result[i] = combine(result[i], theirs[i]);
      });
      std::ranges::copy(result, values.begin());
    });
  }

  std::shared_ptr<Meeting> meeting_;
  int rank_;
};

}  // namespace terngrad::testing
