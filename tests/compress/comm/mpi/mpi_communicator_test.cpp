#include "compress/comm/mpi/mpi_communicator.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

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
  // The tests' ranks are all on this machine.
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
  const auto group = all->split(part);
  EXPECT_EQ(group->size(), (all->size() + 1 - part) / 2);
  EXPECT_EQ(group->rank(), all->rank() / 2);
  EXPECT_EQ(group->local_size(), group->size());
  testing::check_communicator(*group);
  testing::check_communicator(*all);
}

TEST(MpiCommunicator, TellsWhetherAPeerHasCome) {
  const auto c = make_mpi_communicator({.timeout_seconds = 60});
  const auto meet = make_mpi_communicator({.timeout_seconds = 60});
  if (c->size() == 1) GTEST_SKIP() << "takes several ranks";
  if (c->rank() == 0) {
    EXPECT_FALSE(c->has_come(1));
    meet->barrier();
    while (!c->has_come(1)) std::this_thread::yield();
  } else {
    meet->barrier();
  }
  c->barrier();
  EXPECT_FALSE(c->rank() == 0 && c->has_come(1));
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
    // Ranks other than 0 agree with each other, and find out from rank 0 only.
    ADD_FAILURE() << "rank " << c->rank() << " noticed nothing";
  } catch (const CommunicationError& error) {
    EXPECT_THAT(error.what(), AllOf(HasSubstr("in operation 0"), HasSubstr("barrier"), HasSubstr("all_reduce_sum"),
                                    HasSubstr("host ")));
  }
  // What failed stays failed, so that nothing continues with half of the data.
  EXPECT_THROW(c->barrier(), CommunicationError);
  make_mpi_communicator()->barrier();
}

TEST(MpiCommunicator, RanksWithDifferentRootsAreTold) {
  const auto c = make_mpi_communicator({.timeout_seconds = 60});
  if (c->size() == 1) GTEST_SKIP() << "takes several ranks";
  std::vector<std::uint8_t> bytes = {1};
  EXPECT_THROW(c->broadcast(bytes, c->rank() == 0 ? 0 : 1), CommunicationError);
  make_mpi_communicator()->barrier();
}

TEST(MpiCommunicator, LengthsThatDifferAreTold) {
  const auto c = make_mpi_communicator({.timeout_seconds = 60});
  if (c->size() == 1) GTEST_SKIP() << "takes several ranks";
  std::vector<std::uint64_t> values(c->rank() == 0 ? 3 : 4, 1);
  EXPECT_THROW(c->all_reduce_sum(values), CommunicationError);
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
