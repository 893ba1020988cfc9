// Conformance tests of all implementations of DeviceCommunicator.
#include "compress/comm/device_communicator.h"

#include <gtest/gtest.h>

#include <cstdint>
#include <vector>

#include "kernels/runtime/errors.h"
#include "support/cuda_device.h"
#include "support/device_groups.h"

namespace terngrad::device_communicator_test {
namespace {

using testing::DeviceGroup;
using testing::run_group;
using testing::to_device;
using testing::to_host;
using Bytes = std::vector<std::uint8_t>;
using Kind = DeviceGroup::Kind;

class EveryDeviceCommunicator : public ::testing::TestWithParam<DeviceGroup> {
 protected:
  void SetUp() override {
    const std::string reason = testing::why_not(GetParam());
    if (!reason.empty()) GTEST_SKIP() << reason;
  }
};

std::uint8_t byte_of(int rank, std::int64_t index) {
  return static_cast<std::uint8_t>(37 * (rank + 1) + 5 * static_cast<int>(index));
}

/// A buffer filled with 0xee that has a part of `counts[r]` bytes for each rank r, between gaps of `gap` bytes.
struct Parted {
  std::vector<ByteRange> parts;
  Bytes bytes;

  Parted(const std::vector<std::int64_t>& counts, std::int64_t gap) {
    std::int64_t end = gap;
    for (const std::int64_t count : counts) {
      parts.push_back({end, count});
      end += count + gap;
    }
    bytes.assign(static_cast<std::size_t>(end), 0xee);
  }
  void fill(int part, int seed) {
    const ByteRange range = parts[static_cast<std::size_t>(part)];
    for (std::int64_t i = 0; i < range.count; ++i) {
      bytes[static_cast<std::size_t>(range.offset + i)] = byte_of(seed, i);
    }
  }
};

/// Number of bytes from rank `from` to rank `to`: different for all pairs, sometimes 0.
std::int64_t count_of(int from, int to) { return (from + 2 * to) % 3 == 0 ? 0 : 3 + 8 * from + to; }

TEST_P(EveryDeviceCommunicator, NumbersItsRanks) {
  std::vector<int> seen(static_cast<std::size_t>(GetParam().size));
  run_group(GetParam(), [&](DeviceCommunicator& c, Stream&) {
    ASSERT_EQ(c.size(), GetParam().size);
    ++seen.at(static_cast<std::size_t>(c.rank()));
    EXPECT_NO_THROW(c.check());
  });
  for (const int times : seen) EXPECT_EQ(times, 1);
}

TEST_P(EveryDeviceCommunicator, GathersPartsOfAnySizeInPlaceAndNothingElse) {
  run_group(GetParam(), [&](DeviceCommunicator& c, Stream& stream) {
    const auto size = static_cast<std::size_t>(c.size());
    std::vector<std::int64_t> unequal;
    for (std::size_t r = 0; r < size; ++r) unequal.push_back(r % 2 == 0 ? 5 + static_cast<std::int64_t>(r) * 1000 : 0);
    const std::vector<std::int64_t> equal(size, 24);
    // Equal adjacent parts, equal parts with gaps, unequal parts, no parts.
    std::vector<Parted> mine;
    std::vector<Parted> expected;
    for (const auto& [counts, gap] :
         {std::pair{equal, 0}, {equal, 8}, {unequal, 3}, {std::vector<std::int64_t>(size), 1}}) {
      mine.emplace_back(counts, gap);
      mine.back().fill(c.rank(), c.rank());
      expected.emplace_back(counts, gap);
      for (int r = 0; r < c.size(); ++r) expected.back().fill(r, r);
    }
    std::vector<Buffer<std::uint8_t>> buffers;
    std::vector<DeviceGather> gathers;
    for (const Parted& parted : mine) {
      buffers.push_back(to_device<std::uint8_t>(parted.bytes, stream));
      gathers.push_back({buffers.back().data(), parted.parts});
    }
    c.all_gather(gathers, stream);
    for (std::size_t i = 0; i < mine.size(); ++i) {
      EXPECT_EQ(to_host<std::uint8_t>(buffers[i].span(), stream), expected[i].bytes) << "buffer " << i;
    }
  });
}

TEST_P(EveryDeviceCommunicator, AddsAndComparesIntegersExactly) {
  run_group(GetParam(), [&](DeviceCommunicator& c, Stream& stream) {
    const auto rank = static_cast<std::uint64_t>(c.rank());
    const auto size = static_cast<std::uint64_t>(c.size());
    std::vector<std::uint64_t> sums = {rank, ~std::uint64_t{0}, (std::uint64_t{1} << 53) + rank};
    std::vector<std::uint32_t> maxima = {c.rank() == 0 ? 0x7fc00000u : 1u,
                                         0xffffff00u + static_cast<std::uint32_t>(rank), 0};
    Buffer<std::uint64_t> sums_there = to_device<std::uint64_t>(sums, stream);
    Buffer<std::uint32_t> maxima_there = to_device<std::uint32_t>(maxima, stream);
    c.all_reduce_sum(sums_there.span(), stream);
    c.all_reduce_max(maxima_there.span(), stream);
    const std::uint64_t ranks = size * (size - 1) / 2;
    EXPECT_EQ(to_host<std::uint64_t>(sums_there.span(), stream),
              (std::vector<std::uint64_t>{ranks, std::uint64_t{0} - size, (size << 53) + ranks}));
    EXPECT_EQ(to_host<std::uint32_t>(maxima_there.span(), stream),
              (std::vector<std::uint32_t>{0x7fc00000u, 0xffffff00u + static_cast<std::uint32_t>(size) - 1, 0}));
  });
}

TEST_P(EveryDeviceCommunicator, AddsFloatsOfEveryType) {
  for (const ElementType type : {ElementType::kFloat32, ElementType::kBfloat16, ElementType::kFloat16}) {
    run_group(GetParam(), [&](DeviceCommunicator& c, Stream& stream) {
      // Small integers have exact sums in every order and type.
      const std::vector<float> values = {static_cast<float>(c.rank()), -1, 3};
      Bytes bytes(values.size() * element_bytes(type));
      testing::FloatSum(type, values).write(bytes.data());
      Buffer<std::uint8_t> there = to_device<std::uint8_t>(bytes, stream);
      c.vendor_sum({there.data(), 3, type}, stream);
      bytes = to_host<std::uint8_t>(there.span(), stream);
      testing::FloatSum sum(type, std::vector<float>(values.size()));
      sum.add(bytes.data());
      const auto n = static_cast<float>(c.size());
      EXPECT_EQ(sum.values(), (std::vector<float>{n * (n - 1) / 2, -n, 3 * n})) << element_type_name(type);
    });
  }
}

TEST_P(EveryDeviceCommunicator, SendsEachRankItsPart) {
  run_group(GetParam(), [&](DeviceCommunicator& c, Stream& stream) {
    std::vector<std::int64_t> to_counts;
    std::vector<std::int64_t> from_counts;
    for (int other = 0; other < c.size(); ++other) {
      to_counts.push_back(count_of(c.rank(), other));
      from_counts.push_back(count_of(other, c.rank()));
    }
    Parted outgoing(to_counts, 2);
    Parted expected(from_counts, 5);
    const Parted blank(from_counts, 5);
    for (int other = 0; other < c.size(); ++other) {
      outgoing.fill(other, 10 * c.rank() + other);
      expected.fill(other, 10 * other + c.rank());
    }
    const Buffer<std::uint8_t> sent = to_device<std::uint8_t>(outgoing.bytes, stream);
    Buffer<std::uint8_t> received = to_device<std::uint8_t>(blank.bytes, stream);
    c.all_to_all(sent.data(), outgoing.parts, received.data(), expected.parts, stream);
    EXPECT_EQ(to_host<std::uint8_t>(received.span(), stream), expected.bytes);
  });
}

TEST_P(EveryDeviceCommunicator, BroadcastsFromEveryRoot) {
  run_group(GetParam(), [&](DeviceCommunicator& c, Stream& stream) {
    for (int root = 0; root < c.size(); ++root) {
      Buffer<std::uint8_t> bytes = to_device<std::uint8_t>(Bytes(77, byte_of(c.rank(), 0)), stream);
      c.broadcast(bytes.span(), root, stream);
      EXPECT_EQ(to_host<std::uint8_t>(bytes.span(), stream), Bytes(77, byte_of(root, 0)));
    }
  });
}

TEST_P(EveryDeviceCommunicator, IsSplitIntoGroups) {
  run_group(GetParam(), [&](DeviceCommunicator& c, Stream& stream) {
    // Ranks 0 and 2, ranks 1 and 3.
    std::vector<int> parts;
    for (int rank = 0; rank < c.size(); ++rank) parts.push_back(rank % 2);
    const auto part = c.split(parts);
    EXPECT_EQ(part->rank(), c.rank() / 2);
    EXPECT_EQ(part->size(), (c.size() + 1 - c.rank() % 2) / 2);
    Buffer<std::uint8_t> bytes = to_device<std::uint8_t>(Bytes(9, byte_of(c.rank(), 0)), stream);
    part->broadcast(bytes.span(), 0, stream);
    EXPECT_EQ(to_host<std::uint8_t>(bytes.span(), stream), Bytes(9, byte_of(c.rank() % 2, 0)));
    parts.push_back(0);
    EXPECT_THROW(c.split(parts), InvalidArgument);
  });
}

TEST_P(EveryDeviceCommunicator, TakesNothingAtAll) {
  run_group(GetParam(), [&](DeviceCommunicator& c, Stream& stream) {
    const std::vector<ByteRange> none(static_cast<std::size_t>(c.size()));
    EXPECT_NO_THROW(c.all_gather({}, stream));
    EXPECT_NO_THROW(c.all_reduce_sum({}, stream));
    EXPECT_NO_THROW(c.all_reduce_max({}, stream));
    EXPECT_NO_THROW(c.all_to_all(nullptr, none, nullptr, none, stream));
    EXPECT_NO_THROW(c.broadcast({}, 0, stream));
    EXPECT_NO_THROW(c.vendor_sum({}, stream));
  });
}

TEST_P(EveryDeviceCommunicator, RefusesWhatIsWrongBeforeAnythingIsSubmitted) {
  run_group(GetParam(), [&](DeviceCommunicator& c, Stream& stream) {
    const auto size = static_cast<std::size_t>(c.size());
    std::vector<ByteRange> good(size, {0, 8});
    std::vector<ByteRange> negative_count(size, {8, -8});
    std::vector<ByteRange> negative_offset(size, {-8, 8});
    std::vector<ByteRange> longer(size, {0, 9});
    const std::vector<ByteRange> too_many(size + 1, {0, 8});
    Buffer<std::uint8_t> bytes = to_device<std::uint8_t>(Bytes(8, 1), stream);
    for (const auto& wrong : {negative_count, negative_offset, too_many}) {
      const DeviceGather gather{bytes.data(), wrong};
      EXPECT_THROW(c.all_gather({&gather, 1}, stream), InvalidArgument);
      EXPECT_THROW(c.all_to_all(bytes.data(), wrong, bytes.data(), good, stream), InvalidArgument);
      EXPECT_THROW(c.all_to_all(bytes.data(), good, bytes.data(), wrong, stream), InvalidArgument);
    }
    EXPECT_THROW(c.all_to_all(bytes.data(), good, bytes.data(), longer, stream), InvalidArgument);
    EXPECT_THROW(c.broadcast(bytes.span(), c.size(), stream), InvalidArgument);
    EXPECT_THROW(c.broadcast(bytes.span(), -1, stream), InvalidArgument);
  });
}

std::vector<DeviceGroup> all_groups() {
  std::vector<DeviceGroup> groups;
  for (const DeviceKind device : {DeviceKind::kCpu, DeviceKind::kCuda}) {
    groups.push_back({Kind::kSelf, 1, device});
    for (const int size : {1, 2, 3, 4}) groups.push_back({Kind::kThreads, size, device});
  }
  if (!has_nccl()) return groups;
  for (const int size : {1, 2, 4}) groups.push_back({Kind::kNccl, size, DeviceKind::kCuda});
  return groups;
}

INSTANTIATE_TEST_SUITE_P(DeviceCommunicator, EveryDeviceCommunicator, ::testing::ValuesIn(all_groups()),
                         [](const auto& test) { return test.param.name(); });

// Needs no calls of the other ranks.
TEST(RehearsedDeviceCommunicator, ReachesNoOtherRank) {
  testing::ThreadDeviceCommunicator c(std::make_shared<testing::Meeting>(3), 1);
  Stream stream;
  c.rehearse(true);
  Bytes buffer = {9, 1, 2, 9, 9, 9, 9};
  const std::vector<ByteRange> parts = {{0, 1}, {1, 2}, {3, 4}};
  const std::vector<DeviceGather> gathers = {{buffer.data(), parts}};
  c.all_gather(gathers, stream);
  EXPECT_EQ(buffer, (Bytes{1, 1, 2, 1, 2, 0, 0}));
  const Bytes outgoing = {5, 6, 7};
  Bytes incoming(4, 9);
  const std::vector<ByteRange> to = {{0, 0}, {0, 2}, {2, 1}};
  const std::vector<ByteRange> from = {{0, 1}, {1, 2}, {3, 1}};
  c.all_to_all(outgoing.data(), to, incoming.data(), from, stream);
  EXPECT_EQ(incoming, (Bytes{5, 5, 6, 5}));
  std::vector<std::uint64_t> sums = {3};
  std::vector<std::uint32_t> maxima = {4};
  c.all_reduce_sum(sums, stream);
  c.all_reduce_max(maxima, stream);
  c.broadcast(buffer, 0, stream);
  float number = 2;
  c.vendor_sum({&number, 1, ElementType::kFloat32}, stream);
  EXPECT_EQ(number, 2);
  EXPECT_EQ(sums[0], 3u);
  EXPECT_EQ(maxima[0], 4u);
  EXPECT_EQ(buffer, (Bytes{1, 1, 2, 1, 2, 0, 0}));
}

}  // namespace
}  // namespace terngrad::device_communicator_test
