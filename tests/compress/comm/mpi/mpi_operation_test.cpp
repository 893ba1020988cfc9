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
    operation.await_heads();
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
  const auto barrier = [&] {
    MpiOperation operation(group, MpiOperationKind::kBarrier);
    for (int peer = 0; peer < group.size; ++peer) {
      if (peer != group.rank) operation.send(peer, {}, {});
    }
    operation.await_heads();
    operation.finish();
  };
  if (group.rank == late) {
    std::this_thread::sleep_for(std::chrono::milliseconds(4000));
    barrier();  // the others' heads are there
  } else {
    const auto begin = std::chrono::steady_clock::now();
    try {
      barrier();
      ADD_FAILURE() << "nothing was missed";
    } catch (const CommunicationError& error) {
      const std::string peer = "rank " + std::to_string(late) + " (host host" + std::to_string(late) + ")";
      EXPECT_THAT(error.what(), AllOf(HasSubstr("barrier"), HasSubstr("heard nothing from " + peer + " for 2 seconds"),
                                      HasSubstr("rank " + std::to_string(group.rank) + " (host")));
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
      for (int peer = 0; peer < stranger; ++peer) {
        MPI_Send(garbage.data(), static_cast<int>(length), MPI_BYTE, peer, kMpiHeadTag, group.communicator);
      }
    } else {
      MpiOperation operation(group, MpiOperationKind::kBarrier);
      for (int peer = 0; peer < group.size; ++peer) {
        if (peer != group.rank) operation.send(peer, {}, {});
      }
      try {
        operation.await_heads();
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

TEST(MpiOperation, RefusesSizesThatAreNotThoseOfTheData) {
  const std::vector<std::vector<std::uint64_t>> hostile = {
      {~std::uint64_t{0}}, {9}, std::vector<std::uint64_t>(16, std::uint64_t{1} << 63), {8, 8}};
  for (const std::vector<std::uint64_t>& sizes : hostile) {
    MpiGroup group = testing::make_raw_group(60);
    if (group.size == 1) GTEST_SKIP() << "takes several ranks";
    const std::vector<std::uint8_t> data(sizes.size() == 16 ? 0 : 8);
    MpiOperation operation(group, MpiOperationKind::kAllGather);
    std::vector<std::uint8_t> received(data.size());
    for (int peer = 0; peer < group.size; ++peer) {
      if (peer != group.rank) operation.send(peer, sizes, data);
    }
    operation.await_heads();
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

// What was sent for it would be taken for a part of the next one.
TEST(MpiOperation, OneThatIsGivenUpBreaksTheGroup) {
  MpiGroup group = testing::make_raw_group(60);
  if (group.size == 1) GTEST_SKIP() << "takes several ranks";
  { const MpiOperation operation(group, MpiOperationKind::kBarrier); }
  EXPECT_TRUE(group.is_broken);
  EXPECT_THROW(MpiOperation(group, MpiOperationKind::kBarrier), CommunicationError);
  make_mpi_communicator()->barrier();
}

// Work between operations may take longer than others wait, if it says so.
TEST(MpiOperation, WaitsForAPeerThatIsBusy) {
  MpiGroup group = testing::make_raw_group(1);
  if (group.size == 1) GTEST_SKIP() << "takes several ranks";
  const auto barrier = [&] {
    MpiOperation operation(group, MpiOperationKind::kBarrier);
    for (int peer = 0; peer < group.size; ++peer) {
      if (peer != group.rank) operation.send(peer, {}, {});
    }
    operation.await_heads();
    operation.finish();
  };
  barrier();
  const auto begin = std::chrono::steady_clock::now();
  while (group.rank == 0 && std::chrono::steady_clock::now() - begin < std::chrono::milliseconds(3500)) {
    group.send_heartbeat();
    std::this_thread::sleep_for(std::chrono::milliseconds(20));
  }
  EXPECT_NO_THROW(barrier());
  EXPECT_GE(std::chrono::steady_clock::now() - begin, std::chrono::milliseconds(3000));
  // What was told then counts for that time only.
  if (group.rank != 0) {
    EXPECT_THROW(barrier(), CommunicationError);
  }
  make_mpi_communicator()->barrier();
}

// A rank that stops after it has said what it sends: the others are done except for what it is to take.
TEST(MpiOperation, NamesThePeerThatTakesNothing) {
  MpiGroup group = testing::make_raw_group(1);
  if (group.size == 1) GTEST_SKIP() << "takes several ranks";
  const int stopped = group.size - 1;
  const std::vector<std::uint8_t> data(8 << 20);  // more than is taken before it is asked for
  MpiOperation operation(group, MpiOperationKind::kAllToAll);
  for (int peer = 0; peer < group.size; ++peer) {
    if (peer != group.rank) operation.send(peer, {}, std::span(data).first(peer == stopped ? data.size() : 0));
  }
  if (group.rank != stopped) {
    try {
      operation.await_heads();
      operation.finish();
      ADD_FAILURE() << "nothing was missed";
    } catch (const CommunicationError& error) {
      EXPECT_THAT(error.what(), AllOf(HasSubstr("all_to_all: " + group.name_of(stopped) + " has taken nothing from " +
                                                group.name_of(group.rank) + " for 1 seconds: it hangs or is gone")));
    }
  }
  make_mpi_communicator()->barrier();
}

// Whoever waits for a rank that does not come cannot take what others send it: it is not the one to name.
TEST(MpiOperation, DoesNotBlameAPeerThatWaitsItself) {
  MpiGroup group = testing::make_raw_group(0.3);
  if (group.size < 3) GTEST_SKIP() << "takes three ranks";
  const int late = group.size - 1;
  std::vector<std::uint8_t> data(8 << 20);  // more than is taken before it is asked for
  if (group.rank != late) {
    MpiOperation operation(group, MpiOperationKind::kAllGather);
    for (int peer = 0; peer < group.size; ++peer) {
      if (peer != group.rank) operation.send(peer, {}, data);
    }
    try {
      operation.await_heads();
      ADD_FAILURE() << "nothing was missed";
    } catch (const CommunicationError& error) {
      EXPECT_THAT(error.what(), HasSubstr("nothing from rank " + std::to_string(late) + " (host host" +
                                          std::to_string(late) + ") for"));
    }
  }
  make_mpi_communicator()->barrier();
}

// Rank 1 has all that it needs of rank 0 for the first operation but not the other way round: rank 0 stays in it
// because the last rank does not come, and rank 1, in the second one, must not blame rank 0.
TEST(MpiOperation, NamesTheSilentOneAndNotTheOneThatWaitsForIt) {
  MpiGroup group = testing::make_raw_group(1.0);
  if (group.size < 3) GTEST_SKIP() << "takes three ranks";
  const int late = group.size - 1;
  const std::string silent = "rank " + std::to_string(late) + " (host host" + std::to_string(late) + ")";
  if (group.rank != late) {
    MpiOperation first(group, MpiOperationKind::kAllGather);
    for (int peer = 0; peer < group.size; ++peer) {
      if (peer != group.rank) first.send(peer, {}, {});
    }
    const auto second = [&] {
      MpiOperation operation(group, MpiOperationKind::kBarrier);
      for (int peer = 0; peer < group.size; ++peer) {
        if (peer != group.rank) operation.send(peer, {}, {});
      }
      operation.await_heads();
    };
    try {
      if (group.rank == 0) {
        first.await_heads();
      } else {
        second();
      }
      ADD_FAILURE() << "nothing was missed";
    } catch (const CommunicationError& error) {
      EXPECT_THAT(error.what(), HasSubstr("heard nothing from " + silent + " for 1 seconds"));
    }
  }
  make_mpi_communicator()->barrier();
}

}  // namespace
}  // namespace terngrad::mpi_operation_test
