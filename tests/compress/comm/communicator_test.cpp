#include "compress/comm/communicator.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "kernels/runtime/errors.h"
#include "support/communicator_conformance.h"
#include "support/thread_communicator.h"

namespace terngrad::communicator_test {
namespace {

using ::testing::ElementsAre;
using Bytes = std::vector<std::uint8_t>;

TEST(Parcels, KeepBytesAtMultiplesOf8) {
  Parcels parcels;
  std::vector<Bytes> all;
  for (std::size_t n = 0; n < 40; ++n) {
    all.emplace_back(n, static_cast<std::uint8_t>(n));
    parcels.append(all.back());
  }
  ASSERT_EQ(parcels.count(), all.size());
  for (std::size_t i = 0; i < all.size(); ++i) {
    EXPECT_THAT(parcels.parcel(i), ::testing::ElementsAreArray(all[i]));
    EXPECT_EQ(reinterpret_cast<std::uintptr_t>(parcels.parcel(i).data()) % 8, 0u);
  }
  parcels.clear();
  EXPECT_EQ(parcels.count(), 0u);
}

TEST(Parcels, GiveStorageToFill) {
  Parcels parcels;
  parcels.append(Bytes{1, 2});
  const std::vector<std::uint64_t> sizes = {3, 0, 8};
  const std::span<std::uint8_t> storage = parcels.extend(sizes);
  ASSERT_EQ(storage.size(), 16u);
  for (std::size_t i = 0; i < 16; ++i) storage[i] = static_cast<std::uint8_t>(10 + i);
  ASSERT_EQ(parcels.count(), 4u);
  EXPECT_THAT(parcels.sizes(), ElementsAre(2, 3, 0, 8));
  EXPECT_THAT(parcels.parcel(0), ElementsAre(1, 2));
  EXPECT_THAT(parcels.parcel(1), ElementsAre(10, 11, 12));
  EXPECT_TRUE(parcels.parcel(2).empty());
  EXPECT_EQ(parcels.parcel(3)[0], 18);
  EXPECT_EQ(parcels.storage().size(), 24u);
  EXPECT_EQ(parcels.storage().data() + 8, storage.data());
}

TEST(Parcels, RefuseAnIndexOutside) {
  Parcels parcels;
  EXPECT_THROW(parcels.parcel(0), std::out_of_range);
}

TEST(SelfCommunicator, HandsParcelsBack) {
  const auto self = make_self_communicator();
  EXPECT_EQ(self->rank(), 0);
  EXPECT_EQ(self->size(), 1);
  Parcels mine;
  mine.append(Bytes{1, 2, 3});
  Parcels all;
  self->all_gather(mine, all);
  ASSERT_EQ(all.count(), 1u);
  EXPECT_THAT(all.parcel(0), ElementsAre(1, 2, 3));
  std::vector<Parcels> outgoing(1);
  outgoing[0].append(Bytes{4});
  self->all_to_all(outgoing, all);
  ASSERT_EQ(all.count(), 1u);
  EXPECT_THAT(all.parcel(0), ElementsAre(4));
}

TEST(SelfCommunicator, LeavesReductionsAsTheyAre) {
  const auto self = make_self_communicator();
  testing::check_communicator(*self);
  std::vector<std::uint64_t> sums = {1, 2};
  std::vector<std::uint32_t> maxima = {3};
  Bytes bytes = {4};
  self->all_reduce_sum(sums);
  self->all_reduce_max(maxima);
  self->broadcast(bytes, 0);
  self->barrier();
  EXPECT_THAT(sums, ElementsAre(1, 2));
  EXPECT_THAT(maxima, ElementsAre(3));
  EXPECT_THAT(bytes, ElementsAre(4));
}

TEST(SelfCommunicator, RefusesOtherRanks) {
  const auto self = make_self_communicator();
  Bytes bytes = {4};
  EXPECT_THROW(self->broadcast(bytes, 1), InvalidArgument);
  std::vector<Parcels> two(2);
  Parcels incoming;
  EXPECT_THROW(self->all_to_all(two, incoming), InvalidArgument);
}

TEST(WorkerGroup, SpreadsWorkersInContiguousNearlyEqualRanges) {
  for (const int size : {1, 2, 3, 4}) {
    for (int num_workers = size; num_workers < 20; ++num_workers) {
      int next = 0;
      const auto meeting = std::make_shared<testing::Meeting>(size);
      for (int rank = 0; rank < size; ++rank) {
        const WorkerGroup group =
            make_worker_group(num_workers, std::make_shared<testing::ThreadCommunicator>(meeting, rank));
        ASSERT_EQ(group.num_workers, num_workers);
        ASSERT_EQ(group.first_local_worker, next);
        ASSERT_GE(group.num_local_workers, num_workers / size);
        ASSERT_LE(group.num_local_workers, (num_workers + size - 1) / size);
        next += group.num_local_workers;
      }
      ASSERT_EQ(next, num_workers);
    }
  }
}

TEST(WorkerGroup, RefusesFewerWorkersThanProcesses) {
  const auto meeting = std::make_shared<testing::Meeting>(3);
  EXPECT_THROW(make_worker_group(2, std::make_shared<testing::ThreadCommunicator>(meeting, 0)), InvalidArgument);
  EXPECT_THROW(make_worker_group(0, make_self_communicator()), InvalidArgument);
  EXPECT_THROW(worker_range(4, 2, 2), InvalidArgument);
  EXPECT_THROW(worker_range(4, -1, 2), InvalidArgument);
}

// The communicator of the other tests passes the conformance tests.
TEST(ThreadCommunicator, MovesAndReduces) {
  for (const int size : {1, 2, 3, 4}) {
    const auto errors =
        testing::run_ranks(size, [](const std::shared_ptr<Communicator>& c) { testing::check_communicator(*c); });
    for (const auto& error : errors) EXPECT_FALSE(error);
  }
}

}  // namespace
}  // namespace terngrad::communicator_test
