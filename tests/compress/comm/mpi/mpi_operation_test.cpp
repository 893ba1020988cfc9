#include "compress/comm/mpi/mpi_operation.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <chrono>
#include <thread>

#include "compress/comm/mpi/mpi_communicator.h"
#include "kernels/runtime/errors.h"
#include "tests/mpi/raw_group.h"

namespace terngrad::mpi_operation_test {
namespace {

using ::testing::AllOf;
using ::testing::HasSubstr;

void barrier(MpiGroup& group) {
  MpiOperation operation(group, MpiOperationKind::kBarrier);
  operation.announce({}, {}, true);
  operation.finish();
}

bool everyone(int) { return true; }

TEST(MpiOperation, GivesEachPeerWhatWasSentToIt) {
  MpiGroup group = testing::make_raw_group(60);
  for (const std::size_t length : {0u, 1u, 4000u, 5000u, 3000000u}) {
    MpiOperation operation(group, MpiOperationKind::kAllToAll);
    std::vector<std::vector<std::uint8_t>> sent(static_cast<std::size_t>(group.size));
    std::vector<std::vector<std::uint64_t>> sizes(static_cast<std::size_t>(group.size));
    for (int peer = 0; peer < group.size; ++peer) {
      if (peer == group.rank) continue;
      const auto place = static_cast<std::size_t>(peer);
      sent[place].assign(length, static_cast<std::uint8_t>(16 * group.rank + peer));
      sizes[place].assign(place, static_cast<std::uint64_t>(group.rank));
      operation.send(peer, sizes[place], sent[place]);
    }
    operation.announce({}, {}, true);
    operation.await_heads(everyone);
    std::vector<std::vector<std::uint8_t>> received(static_cast<std::size_t>(group.size));
    for (int peer = 0; peer < group.size; ++peer) {
      if (peer == group.rank) continue;
      const auto place = static_cast<std::size_t>(peer);
      ASSERT_EQ(operation.data_bytes(peer), length);
      EXPECT_THAT(operation.sizes(peer), ::testing::SizeIs(static_cast<std::size_t>(group.rank)));
      EXPECT_THAT(operation.sizes(peer), ::testing::Each(static_cast<std::uint64_t>(peer)));
      received[place].resize(length);
      operation.receive(peer, received[place]);
    }
    operation.finish();
    for (int peer = 0; peer < group.size; ++peer) {
      if (peer == group.rank) continue;
      const auto expected = static_cast<std::uint8_t>(16 * peer + group.rank);
      EXPECT_EQ(received[static_cast<std::size_t>(peer)], std::vector<std::uint8_t>(length, expected));
    }
  }
  MPI_Comm_free(&group.communicator);
}

TEST(MpiOperation, NamesThePeerThatDoesNotCome) {
  MpiGroup group = testing::make_raw_group(2);
  if (group.size == 1) GTEST_SKIP() << "takes several ranks";
  const int late = group.size - 1;
  if (group.rank != late) {
    const auto begin = std::chrono::steady_clock::now();
    try {
      barrier(group);
      ADD_FAILURE() << "nothing was missed";
    } catch (const CommunicationError& error) {
      const std::string peer = "rank " + std::to_string(late) + " (host host" + std::to_string(late) + ")";
      EXPECT_THAT(error.what(),
                  AllOf(HasSubstr("barrier (operation 0): "), HasSubstr("heard nothing from "), HasSubstr(peer),
                        HasSubstr(" for 2 seconds"), HasSubstr("rank " + std::to_string(group.rank) + " (host")));
    }
    EXPECT_GE(std::chrono::steady_clock::now() - begin, std::chrono::seconds(2));
    EXPECT_TRUE(group.is_broken);
    EXPECT_THROW(MpiOperation(group, MpiOperationKind::kBarrier), CommunicationError);
  }
  make_mpi_communicator()->barrier();
}

TEST(MpiOperation, RefusesWhatHasNoHeader) {
  for (const std::size_t length : {0u, 8u, 64u, 4096u}) {
    MpiGroup group = testing::make_raw_group(60);
    if (group.size == 1) GTEST_SKIP() << "takes several ranks";
    const int stranger = group.size - 1;
    const std::vector<std::uint8_t> garbage(length, 0xA5);
    if (group.rank == stranger) {
      MPI_Send(garbage.data(), static_cast<int>(length), MPI_BYTE, stranger - 1, kMpiAnnouncementTag,
               group.communicator);
    } else if (group.rank == stranger - 1) {
      try {
        barrier(group);
        ADD_FAILURE() << "nothing was noticed";
      } catch (const CommunicationError& error) {
        EXPECT_THAT(error.what(), AllOf(HasSubstr("rank " + std::to_string(stranger)),
                                        HasSubstr("is not as this version of the program sends it")));
      }
      EXPECT_TRUE(group.is_broken);
    }
    make_mpi_communicator()->barrier();
  }
}

// Rank 3 forwards the announcement of rank 0 to rank 1.
TEST(MpiOperation, NamesTheRankThatPassesADamagedAnnouncementOn) {
  MpiGroup group = testing::make_raw_group(60);
  if (group.size < 4) GTEST_SKIP() << "takes four ranks";
  OperationHeader header;
  header.kind = static_cast<std::uint8_t>(MpiOperationKind::kBarrier);
  header.holds_all = 1;
  header.chunk_bytes = group.chunk_bytes;
  header.seal({}, {});
  std::vector<std::uint8_t> message(header.bytes().begin(), header.bytes().end());
  if (group.rank == 3) message.insert(message.end(), sizeof(header), 0xA5);
  if (group.rank == 2 || group.rank == 3) {
    MPI_Send(message.data(), static_cast<int>(message.size()), MPI_BYTE, 1, kMpiAnnouncementTag, group.communicator);
  } else if (group.rank == 1) {
    try {
      barrier(group);
      ADD_FAILURE() << "nothing was noticed";
    } catch (const CommunicationError& error) {
      EXPECT_THAT(error.what(), HasSubstr("what came from " + group.name_of(3) + ", the announcement of " +
                                          group.name_of(0) + ", is not as this version of the program sends it"));
    }
  }
  make_mpi_communicator()->barrier();
}

// Large announcements, which MPI sends only when they are received: the rank that detects the difference first must
// still send its own.
TEST(MpiOperation, AllNameADifferenceThatLongAnnouncementsTell) {
  MpiGroup group = testing::make_raw_group(0.5);
  if (group.size == 1) GTEST_SKIP() << "takes several ranks";
  const std::vector<std::uint8_t> data(4000);
  std::string what;
  {
    MpiOperation operation(group, group.rank == 0 ? MpiOperationKind::kAllGather : MpiOperationKind::kMax);
    try {
      if (group.rank == 1) std::this_thread::sleep_for(std::chrono::milliseconds(100));
      operation.announce({}, data, true);
    } catch (const CommunicationError& error) {
      what = error.what();
    }
  }
  EXPECT_THAT(what, HasSubstr("all ranks must do the same operations in the same order"));
  std::this_thread::sleep_for(std::chrono::milliseconds(750));  // sends nothing meanwhile
  make_mpi_communicator()->barrier();
}

TEST(MpiOperation, RefusesSizesThatAreNotThoseOfTheData) {
  const std::vector<std::vector<std::uint64_t>> hostile = {
      {~std::uint64_t{0}}, {9}, std::vector<std::uint64_t>(16, std::uint64_t{1} << 63), {8, 8}};
  for (const std::vector<std::uint64_t>& sizes : hostile) {
    MpiGroup group = testing::make_raw_group(60);
    if (group.size == 1) GTEST_SKIP() << "takes several ranks";
    const std::vector<std::uint8_t> data(sizes.size() == 16 ? 0 : 8);
    MpiOperation operation(group, MpiOperationKind::kAllGather);
    std::vector<std::uint8_t> received(data.size());
    operation.announce(sizes, data, true);
    for (int peer = 0; peer < group.size; ++peer) {
      if (peer != group.rank) operation.receive(peer, received);
    }
    operation.finish();
    EXPECT_FALSE(group.is_broken);
    try {
      operation.require_parcels((group.rank + 1) % group.size);
      ADD_FAILURE() << "nothing was noticed";
    } catch (const CommunicationError& error) {
      EXPECT_THAT(error.what(), HasSubstr("rank " + std::to_string((group.rank + 1) % group.size)));
    }
    EXPECT_TRUE(group.is_broken);
  }
}

// As many rounds as needed; each forwards all announcements known by then.
TEST(MpiOperation, AnnouncementsReachEveryone) {
  MpiGroup group = testing::make_raw_group(60);
  for (const std::size_t scale : {0u, 1u, 900u}) {
    MpiOperation operation(group, MpiOperationKind::kAllGather);
    const auto content = [&](int rank) {
      return std::vector<std::uint8_t>(scale * static_cast<std::size_t>(rank % 4 + 1), static_cast<std::uint8_t>(rank));
    };
    const std::vector<std::uint64_t> sizes(static_cast<std::size_t>(group.rank), 3);
    operation.announce(sizes, content(group.rank), true);
    for (int peer = 0; peer < group.size; ++peer) {
      if (peer == group.rank) continue;
      EXPECT_TRUE(operation.holds_all(peer));
      EXPECT_EQ(operation.sizes(peer).size(), static_cast<std::size_t>(peer));
      std::vector<std::uint8_t> received(operation.data_bytes(peer));
      operation.receive(peer, received);
      EXPECT_EQ(received, content(peer));
    }
    operation.finish();
  }
  MPI_Comm_free(&group.communicator);
}

TEST(MpiOperation, WhatAHeadHoldsIsBounded) {
  const std::vector<std::uint8_t> data(MpiOperation::kHeadBytes);
  const std::vector<std::uint64_t> sizes(MpiOperation::kHeadBytes / 8);
  const std::size_t room = MpiOperation::kHeadBytes - sizeof(OperationHeader);
  EXPECT_TRUE(MpiOperation::fits({}, std::span(data).first(room)));
  EXPECT_FALSE(MpiOperation::fits({}, std::span(data).first(room + 1)));
  EXPECT_TRUE(MpiOperation::fits(std::span(sizes).first(room / 8), {}));
  EXPECT_FALSE(MpiOperation::fits(std::span(sizes).first(room / 8), std::span(data).first(1)));
  EXPECT_FALSE(MpiOperation::fits(sizes, {}));
}

TEST(MpiOperation, AnnouncesNoMoreThanAHeadHolds) {
  MpiGroup group = testing::make_raw_group(60);
  const std::vector<std::uint8_t> data(MpiOperation::kHeadBytes);
  MpiOperation operation(group, MpiOperationKind::kAllGather);
  EXPECT_THROW(operation.announce({}, data, true), InvalidArgument);
}

// Data already sent would be taken for a part of the next operation.
TEST(MpiOperation, OneThatIsGivenUpBreaksTheGroup) {
  MpiGroup group = testing::make_raw_group(60);
  if (group.size == 1) GTEST_SKIP() << "takes several ranks";
  { const MpiOperation operation(group, MpiOperationKind::kBarrier); }
  EXPECT_TRUE(group.is_broken);
  EXPECT_THROW(MpiOperation(group, MpiOperationKind::kBarrier), CommunicationError);
  make_mpi_communicator()->barrier();
}

// A rank may work longer than the others' timeout between operations if it sends heartbeats.
TEST(MpiOperation, WaitsForAPeerThatIsBusy) {
  MpiGroup group = testing::make_raw_group(1);
  if (group.size == 1) GTEST_SKIP() << "takes several ranks";
  barrier(group);
  const auto begin = std::chrono::steady_clock::now();
  while (group.rank == 0 && std::chrono::steady_clock::now() - begin < std::chrono::milliseconds(3500)) {
    group.send_heartbeat();
    std::this_thread::sleep_for(std::chrono::milliseconds(20));
  }
  EXPECT_NO_THROW(barrier(group));
  EXPECT_GE(std::chrono::steady_clock::now() - begin, std::chrono::milliseconds(3000));
  // Those heartbeats do not extend later waits.
  if (group.rank != 0) {
    EXPECT_THROW(barrier(group), CommunicationError);
  }
  make_mpi_communicator()->barrier();
}

}  // namespace
}  // namespace terngrad::mpi_operation_test
