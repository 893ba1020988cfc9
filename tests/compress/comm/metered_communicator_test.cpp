#include "compress/comm/metered_communicator.h"

#include <gtest/gtest.h>

#include <vector>

#include "support/communicator_conformance.h"
#include "support/thread_communicator.h"

namespace terngrad::metered_communicator_test {
namespace {

/// Calls body(metered communicator) on each of `size` ranks.
template <class Body>
void on_ranks(int size, const Body& body) {
  const auto errors = testing::run_ranks(size, [&](const std::shared_ptr<Communicator>& communicator) {
    MeteredCommunicator metered(communicator);
    body(metered);
  });
  for (const auto& error : errors) EXPECT_EQ(error, nullptr);
}

TEST(MeteredCommunicator, IsACommunicator) {
  on_ranks(3, [](MeteredCommunicator& metered) { testing::check_communicator(metered); });
}

TEST(MeteredCommunicator, CountsACopyForEachPeer) {
  on_ranks(3, [](MeteredCommunicator& metered) {
    // Rank r has 8 (r + 1) bytes, including padding.
    const auto r = static_cast<std::size_t>(metered.rank());
    Parcels mine;
    mine.append(std::vector<std::uint8_t>(8 * r + 5));
    Parcels all;
    metered.all_gather(mine, all);
    EXPECT_EQ(metered.sent_bytes(), static_cast<std::int64_t>(2 * 8 * (r + 1)));
    EXPECT_EQ(metered.received_bytes(), static_cast<std::int64_t>(8 + 16 + 24 - 8 * (r + 1)));
    metered.reset();
    EXPECT_EQ(metered.sent_bytes(), 0);
    EXPECT_EQ(metered.received_bytes(), 0);
  });
}

TEST(MeteredCommunicator, WhatARankKeepsDoesNotCount) {
  on_ranks(2, [](MeteredCommunicator& metered) {
    std::vector<Parcels> outgoing(2);
    outgoing[0].append(std::vector<std::uint8_t>(16));
    outgoing[1].append(std::vector<std::uint8_t>(32));
    Parcels incoming;
    metered.all_to_all(outgoing, incoming);
    EXPECT_EQ(metered.sent_bytes(), metered.rank() == 0 ? 32 : 16);
    EXPECT_EQ(metered.received_bytes(), metered.rank() == 0 ? 16 : 32);
  });
}

TEST(MeteredCommunicator, CountsReductionsAndBroadcasts) {
  on_ranks(4, [](MeteredCommunicator& metered) {
    std::vector<std::uint64_t> sums(100);
    metered.all_reduce_sum(sums);
    EXPECT_EQ(metered.sent_bytes(), 2 * 3 * 800 / 4);
    EXPECT_EQ(metered.received_bytes(), metered.sent_bytes());
    metered.reset();
    std::vector<std::uint32_t> max(100);
    metered.all_reduce_max(max);
    EXPECT_EQ(metered.sent_bytes(), 2 * 3 * 400 / 4);
    metered.reset();
    std::vector<float> summands(100);
    metered.vendor_sum({summands.data(), 100, ElementType::kFloat32});
    EXPECT_EQ(metered.sent_bytes(), 2 * 3 * 400 / 4);
    metered.reset();
    std::vector<std::uint8_t> values(10);
    metered.broadcast(values, 1);
    EXPECT_EQ(metered.sent_bytes(), metered.rank() == 1 ? 30 : 0);
    EXPECT_EQ(metered.received_bytes(), metered.rank() == 1 ? 0 : 10);
    metered.reset();
    metered.barrier();
    EXPECT_EQ(metered.sent_bytes() + metered.received_bytes(), 0);
  });
}

TEST(MeteredCommunicator, AloneNothingCrosses) {
  MeteredCommunicator metered(make_self_communicator());
  Parcels mine;
  mine.append(std::vector<std::uint8_t>(100));
  Parcels all;
  metered.all_gather(mine, all);
  std::vector<std::uint64_t> sums(100);
  metered.all_reduce_sum(sums);
  EXPECT_EQ(metered.sent_bytes() + metered.received_bytes(), 0);
}

}  // namespace
}  // namespace terngrad::metered_communicator_test
