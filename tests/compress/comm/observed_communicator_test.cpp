#include "compress/comm/observed_communicator.h"

#include <gtest/gtest.h>

#include <cstdint>
#include <stdexcept>
#include <vector>

#include "support/communicator_conformance.h"
#include "support/thread_communicator.h"

namespace terngrad::observed_communicator_test {
namespace {

using Bytes = std::vector<std::uint8_t>;

TEST(ObservedCommunicator, IsACommunicator) {
  const auto errors = testing::run_ranks(3, [](const std::shared_ptr<Communicator>& communicator) {
    ObservedCommunicator observed(communicator, [](std::span<const std::uint8_t>) {});
    testing::check_communicator(observed);
  });
  for (const auto& error : errors) EXPECT_EQ(error, nullptr);
}

TEST(ObservedCommunicator, ShowsWhatThisRankSendsInOrder) {
  const auto errors = testing::run_ranks(2, [](const std::shared_ptr<Communicator>& communicator) {
    std::vector<Bytes> seen;
    ObservedCommunicator observed(
        communicator, [&](std::span<const std::uint8_t> parcel) { seen.emplace_back(parcel.begin(), parcel.end()); });
    const auto rank = static_cast<std::uint8_t>(observed.rank());
    Parcels mine;
    mine.append(Bytes{rank, 1});
    mine.append(Bytes{rank, 2, 2});
    Parcels all;
    observed.all_gather(mine, all);
    EXPECT_EQ(all.count(), 4u);
    EXPECT_EQ(seen, (std::vector<Bytes>{{rank, 1}, {rank, 2, 2}}));
    seen.clear();
    std::vector<Parcels> outgoing(2);
    outgoing[0].append(Bytes{rank, 3});
    outgoing[1].append(Bytes{rank, 4});
    observed.all_to_all(outgoing, all);
    EXPECT_EQ(all.count(), 2u);
    EXPECT_EQ(seen, (std::vector<Bytes>{{rank, 3}, {rank, 4}}));
  });
  for (const auto& error : errors) EXPECT_EQ(error, nullptr);
}

TEST(ObservedCommunicator, WhatTheObserverThrowsIsPassedOn) {
  ObservedCommunicator observed(make_self_communicator(),
                                [](std::span<const std::uint8_t>) { throw std::runtime_error("full"); });
  Parcels mine;
  mine.append(Bytes{1});
  Parcels all;
  EXPECT_THROW(observed.all_gather(mine, all), std::runtime_error);
  EXPECT_EQ(all.count(), 0u);
}

}  // namespace
}  // namespace terngrad::observed_communicator_test
