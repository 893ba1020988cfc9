#include "compress/comm/mpi/mpi_requests.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <chrono>
#include <thread>

#include "compress/comm/mpi/mpi_communicator.h"
#include "kernels/runtime/errors.h"
#include "tests/mpi/raw_group.h"

namespace terngrad::mpi_requests_test {
namespace {

using ::testing::HasSubstr;
using Purpose = MpiRequests::Purpose;

constexpr int kTag = 1;

int after(const MpiGroup& group, int distance) { return (group.rank + distance + group.size) % group.size; }

/// Error message of a wait for the next rank, which must fail.
std::string failure_of_wait_for_next(MpiGroup& group, int num_arrived) {
  MpiRequests requests(group, "test", 7);
  requests.set_num_arrived(num_arrived);
  const auto memory = std::make_shared<std::vector<std::uint8_t>>(8);
  requests.keep_alive(memory);
  requests.receive(after(group, 1), *memory, kTag, Purpose::kHead);
  try {
    requests.await({Purpose::kHead});
  } catch (const CommunicationError& error) {
    EXPECT_TRUE(group.is_broken);
    return error.what();
  }
  ADD_FAILURE() << "nothing was missed";
  return "";
}

TEST(MpiRequests, MoveMessages) {
  MpiGroup group = testing::make_raw_group(60);
  if (group.size == 1) GTEST_SKIP() << "takes several ranks";
  for (const std::size_t length : {0u, 1u, 100000u}) {
    MpiRequests requests(group, "test", 0);
    const std::vector<std::uint8_t> sent(length, static_cast<std::uint8_t>(group.rank));
    std::vector<std::uint8_t> received(length + 100);
    requests.send(after(group, -1), sent, kTag);
    requests.receive(after(group, 1), received, kTag, Purpose::kHead);
    requests.await({Purpose::kHead, Purpose::kSend});
    ASSERT_EQ(requests.received_bytes(after(group, 1)), length);
    received.resize(length);
    EXPECT_EQ(received, std::vector<std::uint8_t>(length, static_cast<std::uint8_t>(after(group, 1))));
  }
  EXPECT_FALSE(group.is_broken);
  make_mpi_communicator()->barrier();
  MPI_Comm_free(&group.communicator);
}

TEST(MpiRequests, ThoseThatAreGivenUpBreakTheGroupAndKeepTheirMemory) {
  MpiGroup group = testing::make_raw_group(60);
  if (group.size == 1) GTEST_SKIP() << "takes several ranks";
  auto memory = std::make_shared<std::vector<std::uint8_t>>(8);
  const std::weak_ptr<std::vector<std::uint8_t>> watched = memory;
  {
    MpiRequests requests(group, "test", 0);
    requests.receive(after(group, 1), *memory, kTag, Purpose::kReceive);
    requests.keep_alive(std::move(memory));
  }
  EXPECT_TRUE(group.is_broken);
  EXPECT_FALSE(watched.expired());
  make_mpi_communicator()->barrier();
}

TEST(MpiRequests, EachRankNamesTheOneThatItMisses) {
  MpiGroup group = testing::make_raw_group(1);
  if (group.size == 1) GTEST_SKIP() << "takes several ranks";
  const int silent = group.size - 1;
  if (group.rank != silent) {
    const auto begin = std::chrono::steady_clock::now();
    EXPECT_EQ(failure_of_wait_for_next(group, group.size), "[mpi] test (operation 7): " + group.name_of(group.rank) +
                                                               " has heard nothing from " +
                                                               group.name_of(after(group, 1)) + " for 1 seconds");
    const auto end = std::chrono::steady_clock::now();
    EXPECT_GE(end - begin, std::chrono::seconds(1));
    EXPECT_LT(end - begin, std::chrono::seconds(4));
  }
  make_mpi_communicator()->barrier();
}

TEST(MpiRequests, AllThatHaveNotArrivedAreNamed) {
  MpiGroup group = testing::make_raw_group(1);
  if (group.size < 3) GTEST_SKIP() << "takes three ranks";
  if (group.rank < group.size - 2) {
    std::string others;
    for (int rank = 0; rank < group.size; ++rank) {
      if (rank != group.rank) others += (others.empty() ? "" : ", ") + group.name_of(rank);
    }
    EXPECT_THAT(failure_of_wait_for_next(group, 1),
                HasSubstr("heard nothing from " + others + " for 1 seconds; some of these may only wait for others"));
  }
  make_mpi_communicator()->barrier();
}

// Heartbeats of any rank count, except those sent before an earlier operation.
TEST(MpiRequests, HeartbeatsExtendAWait) {
  MpiGroup group = testing::make_raw_group(1);
  if (group.size < 3) GTEST_SKIP() << "takes three ranks";
  const int last = group.size - 1;
  std::vector<std::uint8_t> word(8);
  if (group.rank == 0) {
    MpiRequests requests(group, "test", 7);
    requests.receive(1, word, kTag, Purpose::kHead);
    EXPECT_NO_THROW(requests.await({Purpose::kHead}));
    EXPECT_THAT(failure_of_wait_for_next(group, group.size), HasSubstr("heard nothing from " + group.name_of(1)));
  } else if (group.rank == last) {
    for (int i = 0; i < 40; ++i) {
      group.num_operations = i < 20 ? 7 : 5;
      group.send_heartbeat();
      std::this_thread::sleep_for(std::chrono::milliseconds(100));
    }
  } else if (group.rank == 1) {
    std::this_thread::sleep_for(std::chrono::milliseconds(1800));
    MPI_Send(word.data(), static_cast<int>(word.size()), MPI_BYTE, 0, kTag, group.communicator);
  }
  make_mpi_communicator()->barrier();
}

TEST(MpiRequests, TheShortestTimeoutEnds) {
  MpiGroup group = testing::make_raw_group(0.01);
  if (group.size == 1) GTEST_SKIP() << "takes several ranks";
  if (group.rank == 0) {
    EXPECT_THAT(failure_of_wait_for_next(group, group.size), HasSubstr("heard nothing from " + group.name_of(1)));
  }
  make_mpi_communicator()->barrier();
}

TEST(MpiRequests, ThePeerThatTakesNothingIsNamed) {
  MpiGroup group = testing::make_raw_group(1);
  if (group.size == 1) GTEST_SKIP() << "takes several ranks";
  const int stopped = group.size - 1;
  if (group.rank != stopped) {
    MpiRequests requests(group, "test", 0);
    const auto data =
        std::make_shared<std::vector<std::uint8_t>>(8 << 20);  // too large to be sent before it is received
    requests.keep_alive(data);
    requests.send(stopped, *data, kTag);
    try {
      requests.await({Purpose::kSend});
      ADD_FAILURE() << "nothing was missed";
    } catch (const CommunicationError& error) {
      EXPECT_EQ(std::string(error.what()), "[mpi] test (operation 0): " + group.name_of(group.rank) +
                                               " has heard nothing from " + group.name_of(stopped) + " for 1 seconds");
    }
  }
  make_mpi_communicator()->barrier();
}

}  // namespace
}  // namespace terngrad::mpi_requests_test
