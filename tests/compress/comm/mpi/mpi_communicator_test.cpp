#include "compress/comm/mpi/mpi_communicator.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <chrono>
#include <functional>
#include <thread>

#include "compress/comm/mpi/mpi_session.h"
#include "kernels/runtime/errors.h"
#include "support/communicator_conformance.h"

namespace terngrad::mpi_communicator_test {
namespace {

using ::testing::AllOf;
using ::testing::HasSubstr;

TEST(MpiCommunicator, IsWhatTheLauncherSaid) {
  const auto c = make_mpi_communicator();
  EXPECT_EQ(c->rank(), launched_rank().rank);
  EXPECT_EQ(c->size(), launched_rank().size);
  EXPECT_EQ(c->hosts().size(), static_cast<std::size_t>(c->size()));
  // All ranks of the tests run on this machine.
  EXPECT_EQ(c->local_size(), c->size());
  EXPECT_EQ(c->local_rank(), c->rank());
}

TEST(MpiCommunicator, MovesAndReduces) {
  const auto c = make_mpi_communicator();
  testing::check_communicator(*c);
}

TEST(MpiCommunicator, SplitsLongDataIntoPieces) {
  const auto c = make_mpi_communicator({.timeout_seconds = 60, .chunk_bytes = 1000});
  testing::check_communicator(*c);
}

TEST(MpiCommunicator, RanksMayCutTheirDataDifferently) {
  const std::size_t chunk_bytes = 512 + 256 * static_cast<std::size_t>(launched_rank().rank);
  const auto c = make_mpi_communicator({.timeout_seconds = 60, .chunk_bytes = chunk_bytes});
  testing::check_communicator(*c);
}

TEST(MpiCommunicator, GroupsDoNotMeet) {
  const auto one = make_mpi_communicator();
  const auto other = make_mpi_communicator();
  std::vector<std::uint64_t> a = {1};
  std::vector<std::uint64_t> b = {10};
  one->all_reduce_sum(a);
  other->all_reduce_sum(b);
  EXPECT_EQ(a[0], static_cast<std::uint64_t>(one->size()));
  EXPECT_EQ(b[0], 10 * static_cast<std::uint64_t>(one->size()));
}

TEST(MpiCommunicator, SplitsIntoGroups) {
  const auto all = make_mpi_communicator();
  const int part = all->rank() % 2;
  const auto group = all->split_mpi(part);
  EXPECT_EQ(group->size(), (all->size() + 1 - part) / 2);
  EXPECT_EQ(group->rank(), all->rank() / 2);
  EXPECT_EQ(group->local_size(), group->size());
  testing::check_communicator(*group);
  testing::check_communicator(*all);
}

TEST(MpiCommunicator, TellsWhetherTheNextRankHasCome) {
  const auto c = make_mpi_communicator({.timeout_seconds = 60});
  const auto meet = make_mpi_communicator({.timeout_seconds = 60});
  if (c->size() == 1) GTEST_SKIP() << "takes several ranks";
  if (c->rank() == 0) {
    EXPECT_FALSE(c->next_rank_has_come());
    meet->barrier();
    while (!c->next_rank_has_come()) std::this_thread::yield();
  } else {
    meet->barrier();
  }
  c->barrier();
  EXPECT_FALSE(c->rank() == 0 && c->next_rank_has_come());
}

TEST(MpiCommunicator, RanksInDifferentOperationsAreTold) {
  const auto c = make_mpi_communicator({.timeout_seconds = 60});
  if (c->size() == 1) GTEST_SKIP() << "takes several ranks";
  std::vector<std::uint64_t> values = {1};
  const auto do_own = [&] {
    if (c->rank() == 0) {
      c->barrier();
    } else {
      c->all_reduce_sum(values);
    }
  };
  try {
    do_own();
    // Ranks other than 0 agree with each other, and detect the difference only by rank 0's header.
    ADD_FAILURE() << "rank " << c->rank() << " noticed nothing";
  } catch (const CommunicationError& error) {
    EXPECT_THAT(error.what(), AllOf(HasSubstr("in operation 0"), HasSubstr("barrier"), HasSubstr("all_reduce_sum"),
                                    HasSubstr("host ")));
  }
  // After a failure the communicator stays unusable, so that no work continues with partial data.
  EXPECT_THROW(c->barrier(), CommunicationError);
  make_mpi_communicator()->barrier();
}

// Each rank sends the same header to all others, so that every rank detects a difference, even from ranks that send it
// no data.
TEST(MpiCommunicator, EveryTwoOperationsAreToldApart) {
  std::vector<std::uint64_t> sums = {1};
  std::vector<std::uint32_t> maxima = {1};
  std::vector<std::uint8_t> bytes = {1};
  Parcels mine;
  Parcels incoming;
  using Operation = std::function<void(MpiCommunicator&)>;
  const std::vector<std::pair<const char*, Operation>> operations = {
      {"all_gather", [&](MpiCommunicator& c) { c.all_gather(mine, incoming); }},
      {"all_to_all",
       [&](MpiCommunicator& c) {
         std::vector<Parcels> outgoing(static_cast<std::size_t>(c.size()));
         c.all_to_all(outgoing, incoming);
       }},
      {"all_reduce_sum", [&](MpiCommunicator& c) { c.all_reduce_sum(sums); }},
      {"all_reduce_max", [&](MpiCommunicator& c) { c.all_reduce_max(maxima); }},
      {"broadcast", [&](MpiCommunicator& c) { c.broadcast(bytes, 0); }},
      {"barrier", [&](MpiCommunicator& c) { c.barrier(); }}};
  const auto meet = make_mpi_communicator({.timeout_seconds = 60});
  if (meet->size() == 1) GTEST_SKIP() << "takes several ranks";
  for (const auto& [name, operation] : operations) {
    for (const auto& [other_name, other] : operations) {
      const auto c = make_mpi_communicator({.timeout_seconds = 60});
      const bool is_last = c->rank() == c->size() - 1;
      try {
        (is_last ? other : operation)(*c);
        EXPECT_STREQ(name, other_name);
      } catch (const CommunicationError& error) {
        EXPECT_THAT(error.what(), AllOf(HasSubstr(name), HasSubstr(other_name)));
      }
      meet->barrier();
    }
  }
}

TEST(MpiCommunicator, RanksWithDifferentRootsAreTold) {
  const auto c = make_mpi_communicator({.timeout_seconds = 60});
  if (c->size() == 1) GTEST_SKIP() << "takes several ranks";
  std::vector<std::uint8_t> bytes = {1};
  EXPECT_THROW(c->broadcast(bytes, c->rank() == 0 ? 0 : 1), CommunicationError);
  make_mpi_communicator()->barrier();
}

// Small and large data, which use different code paths.
TEST(MpiCommunicator, LengthsThatDifferAreTold) {
  for (const std::size_t length : {3u, 256u, 100000u}) {
    const auto c = make_mpi_communicator({.timeout_seconds = 60});
    if (c->size() == 1) GTEST_SKIP() << "takes several ranks";
    std::vector<std::uint64_t> values(c->rank() == 0 ? length : length + 1, 1);
    EXPECT_THROW(c->all_reduce_sum(values), CommunicationError);
    const auto other = make_mpi_communicator({.timeout_seconds = 60});
    std::vector<std::uint8_t> bytes(c->rank() == 0 ? length : length + 1, 1);
    EXPECT_THROW(other->broadcast(bytes, 0), CommunicationError);
    make_mpi_communicator()->barrier();
  }
}

// Ranks wait for the last one through others; heartbeats must reach all of them for longer than the timeout.
TEST(MpiCommunicator, WaitsForARankThatIsBusyThroughOthers) {
  const auto c = make_mpi_communicator({.timeout_seconds = 1});
  if (c->size() == 1) GTEST_SKIP() << "takes several ranks";
  const auto begin = std::chrono::steady_clock::now();
  while (c->rank() == c->size() - 1 && std::chrono::steady_clock::now() - begin < std::chrono::milliseconds(3500)) {
    c->send_heartbeat();
    std::this_thread::sleep_for(std::chrono::milliseconds(20));
  }
  // Too large to travel with the announcements.
  std::vector<std::uint8_t> bytes(300000, static_cast<std::uint8_t>(c->rank()));
  c->broadcast(bytes, c->size() - 1);
  EXPECT_EQ(bytes, std::vector<std::uint8_t>(300000, static_cast<std::uint8_t>(c->size() - 1)));
  EXPECT_GE(std::chrono::steady_clock::now() - begin, std::chrono::milliseconds(3000));
}

// Rank 2 waits for rank 1, which waits for rank 0 in another group.
TEST(MpiCommunicator, WaitsForARankThatWaitsInAnotherGroup) {
  const auto c = make_mpi_communicator({.timeout_seconds = 1});
  if (c->size() < 3) GTEST_SKIP() << "takes three ranks";
  const auto first = c->split(c->rank() < 2 ? 0 : 1);
  const auto second = c->split(c->rank() > 0 ? 0 : 1);
  if (c->rank() == 1) first->while_waiting([&] { second->send_heartbeat(); });
  for (int i = 0; c->rank() == 0 && i < 25; ++i) {
    first->send_heartbeat();
    std::this_thread::sleep_for(std::chrono::milliseconds(100));
  }
  if (c->rank() < 2) first->barrier();
  second->barrier();
}

TEST(MpiCommunicator, NamesAllRanksThatDoNotCome) {
  const auto c = make_mpi_communicator({.timeout_seconds = 1});
  if (c->size() < 3) GTEST_SKIP() << "takes three ranks";
  if (c->rank() < c->size() - 2) {
    try {
      c->barrier();
      ADD_FAILURE() << "nothing was missed";
    } catch (const CommunicationError& error) {
      const auto name = [&](int rank) { return "rank " + std::to_string(rank) + " (host " + c->hosts().front() + ")"; };
      // Ranks are heard in groups of doubling size, from the next rank on. A group that begins with a missing rank is
      // missed whole, with those behind it.
      int heard = 1;
      while (c->rank() + heard < c->size() - 2) heard *= 2;
      std::string missed;
      for (int rank = 0; rank < c->size(); ++rank) {
        if ((rank - c->rank() + c->size()) % c->size() >= heard) missed += (missed.empty() ? "" : ", ") + name(rank);
      }
      EXPECT_THAT(error.what(), HasSubstr("barrier (operation 0): " + name(c->rank()) + " has heard nothing from " +
                                          missed + " for 1 seconds"));
    }
  }
  make_mpi_communicator()->barrier();
}

TEST(MpiCommunicator, RefusesWrongArguments) {
  const auto c = make_mpi_communicator();
  std::vector<std::uint8_t> bytes = {1};
  EXPECT_THROW(c->broadcast(bytes, c->size()), InvalidArgument);
  EXPECT_THROW(c->broadcast(bytes, -1), InvalidArgument);
  std::vector<Parcels> too_many(static_cast<std::size_t>(c->size()) + 1);
  Parcels incoming;
  EXPECT_THROW(c->all_to_all(too_many, incoming), InvalidArgument);
  EXPECT_THROW(make_mpi_communicator({.timeout_seconds = 0}), InvalidArgument);
  EXPECT_THROW(make_mpi_communicator({.timeout_seconds = 1, .chunk_bytes = 0}), InvalidArgument);
  EXPECT_THROW(make_mpi_communicator({.timeout_seconds = 1, .chunk_bytes = std::size_t{1} << 31}), InvalidArgument);
}

}  // namespace
}  // namespace terngrad::mpi_communicator_test
