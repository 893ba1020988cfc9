#include "compress/comm/device_communicator.h"

#include <algorithm>

#include "kernels/runtime/copy.h"
#include "kernels/runtime/errors.h"

namespace terngrad {
namespace {

void require_ranges(std::span<const ByteRange> ranges, int size, const char* operation) {
  TERNGRAD_REQUIRE(static_cast<int>(ranges.size()) == size, "[", operation, "] one range for each of ", size,
                   " ranks, got ", ranges.size());
  for (std::size_t rank = 0; rank < ranges.size(); ++rank) {
    TERNGRAD_REQUIRE(ranges[rank].offset >= 0 && ranges[rank].count >= 0, "[", operation, "] rank ", rank,
                     " has a range of ", ranges[rank].count, " bytes at ", ranges[rank].offset,
                     ": neither may be negative");
  }
}

bool is_empty(std::span<const ByteRange> ranges) {
  return std::all_of(ranges.begin(), ranges.end(), [](const ByteRange& range) { return range.count == 0; });
}

/// Writes this rank's data in place of another rank's.
void imitate(const std::uint8_t* from, const ByteRange& own, std::uint8_t* to, const ByteRange& part, Stream& stream) {
  const std::span<std::uint8_t> expected(to + part.offset, static_cast<std::size_t>(part.count));
  const auto count = static_cast<std::size_t>(std::min(own.count, part.count));
  copy<std::uint8_t>({from + own.offset, count}, expected.first(count), stream);
  fill_zero(expected.subspan(count), stream);
}

class SelfDeviceCommunicator final : public DeviceCommunicator {
 public:
  int rank() const override { return 0; }
  int size() const override { return 1; }
  void check() override {}

 protected:
  void submit_all_gather(std::span<const DeviceGather>, Stream&) override {}
  void submit_all_reduce_sum(std::span<std::uint64_t>, Stream&) override {}
  void submit_all_reduce_max(std::span<std::uint32_t>, Stream&) override {}
  void submit_all_to_all(const std::uint8_t* outgoing, std::span<const ByteRange> to, std::uint8_t* incoming,
                         std::span<const ByteRange> from, Stream& stream) override {
    const auto count = static_cast<std::size_t>(to[0].count);
    copy<std::uint8_t>({outgoing + to[0].offset, count}, std::span<std::uint8_t>(incoming + from[0].offset, count),
                       stream);
  }
  void submit_broadcast(std::span<std::uint8_t>, int, Stream&) override {}
  void submit_vendor_sum(const FloatSpan&, Stream&) override {}
};

}  // namespace

void DeviceCommunicator::all_gather(std::span<const DeviceGather> gathers, Stream& stream) {
  bool empty = true;
  for (const DeviceGather& gather : gathers) {
    require_ranges(gather.parts, size(), "all_gather");
    empty = empty && is_empty(gather.parts);
  }
  if (!rehearses_ && !empty) submit_all_gather(gathers, stream);
  if (!rehearses_) return;
  for (const DeviceGather& gather : gathers) {
    const ByteRange own = gather.parts[static_cast<std::size_t>(rank())];
    for (const ByteRange& part : gather.parts) {
      if (&part != &gather.parts[static_cast<std::size_t>(rank())])
        imitate(gather.buffer, own, gather.buffer, part, stream);
    }
  }
}

void DeviceCommunicator::all_reduce_sum(std::span<std::uint64_t> values, Stream& stream) {
  if (!rehearses_ && !values.empty()) submit_all_reduce_sum(values, stream);
}

void DeviceCommunicator::all_reduce_max(std::span<std::uint32_t> values, Stream& stream) {
  if (!rehearses_ && !values.empty()) submit_all_reduce_max(values, stream);
}

void DeviceCommunicator::all_to_all(const std::uint8_t* outgoing, std::span<const ByteRange> to, std::uint8_t* incoming,
                                    std::span<const ByteRange> from, Stream& stream) {
  require_ranges(to, size(), "all_to_all");
  require_ranges(from, size(), "all_to_all");
  const auto own = static_cast<std::size_t>(rank());
  TERNGRAD_REQUIRE(to[own].count == from[own].count, "[all_to_all] rank ", rank(), " sends itself ", to[own].count,
                   " bytes and expects ", from[own].count);
  if (rehearses_) {
    for (const ByteRange& part : from) imitate(outgoing, to[own], incoming, part, stream);
  } else if (!is_empty(to) || !is_empty(from)) {
    submit_all_to_all(outgoing, to, incoming, from, stream);
  }
}

void DeviceCommunicator::broadcast(std::span<std::uint8_t> bytes, int root, Stream& stream) {
  TERNGRAD_REQUIRE(root >= 0 && root < size(), "[broadcast] root ", root, " is not in a group of ", size());
  if (!rehearses_ && !bytes.empty()) submit_broadcast(bytes, root, stream);
}

void DeviceCommunicator::vendor_sum(const FloatSpan& values, Stream& stream) {
  if (!rehearses_ && values.count > 0) submit_vendor_sum(values, stream);
}

std::unique_ptr<DeviceCommunicator> DeviceCommunicator::split(std::span<const int> parts) {
  TERNGRAD_REQUIRE(static_cast<int>(parts.size()) == size(), "[split] one part for each of ", size(), " ranks, got ",
                   parts.size());
  if (size() == 1) return make_self_device_communicator();
  const auto own = static_cast<std::size_t>(rank());
  return make_part(parts, static_cast<int>(std::ranges::count(parts.first(own), parts[own])),
                   static_cast<int>(std::ranges::count(parts, parts[own])));
}

std::unique_ptr<DeviceCommunicator> DeviceCommunicator::make_part(std::span<const int>, int, int) {
  throw NotSupported("[split] this communicator cannot be split into groups");
}

void DeviceCommunicator::submit_vendor_sum(const FloatSpan&, Stream&) {
  throw NotSupported("[vendor_sum] this communicator has no library that adds floating-point numbers");
}

std::unique_ptr<DeviceCommunicator> make_self_device_communicator() {
  return std::make_unique<SelfDeviceCommunicator>();
}

}  // namespace terngrad
