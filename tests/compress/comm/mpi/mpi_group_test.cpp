#include "compress/comm/mpi/mpi_group.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <map>
#include <thread>

#include "compress/comm/mpi/mpi_communicator.h"
#include "kernels/runtime/errors.h"
#include "tests/mpi/raw_group.h"

namespace terngrad::mpi_group_test {
namespace {

using ::testing::AllOf;
using ::testing::HasSubstr;

constexpr int kTag = 7;

TEST(MpiGroup, NamesRanksByTheirHosts) {
  MpiGroup group;
  group.rank = 1;
  group.size = 4;
  group.hosts = {"a", "b", "c", "d"};
  EXPECT_EQ(group.name_of(2), "rank 2 (host c)");
  EXPECT_EQ(group.names_where([](int) { return true; }), "rank 0 (host a), rank 2 (host c), rank 3 (host d)");
  EXPECT_EQ(group.names_where([](int peer) { return peer == 3; }), "rank 3 (host d)");
  EXPECT_EQ(group.names_where([](int) { return false; }), "");
}

TEST(MpiGroup, SilenceIsSaidOfTheRanksThatAreMissed) {
  MpiGroup group;
  group.size = 4;
  group.hosts = {"a", "b", "c", "d"};
  group.timeout_seconds = 20;
  EXPECT_EQ(group.silence_text(group.names_where([](int peer) { return peer == 2; })),
            "rank 0 (host a) has heard nothing from rank 2 (host c) for 20 seconds");
  EXPECT_EQ(group.silence_text(group.names_where([](int peer) { return peer >= 2; })),
            "rank 0 (host a) has heard nothing from rank 2 (host c), rank 3 (host d) for 20 seconds; some of "
            "these may only wait for others");
}

TEST(MpiGroup, AFailureIsSaidInTheWordsOfMpiAndLasts) {
  MpiGroup group = testing::make_raw_group();
  EXPECT_NO_THROW(group.require_success(MPI_SUCCESS, "probe"));
  EXPECT_FALSE(group.is_broken);
  try {
    group.require_success(MPI_ERR_COUNT, "probe");
    ADD_FAILURE() << "nothing was thrown";
  } catch (const CommunicationError& error) {
    EXPECT_THAT(error.what(), AllOf(HasSubstr(group.name_of(group.rank) + ", probe: "), HasSubstr("MPI_ERR_COUNT")));
  }
  EXPECT_TRUE(group.is_broken);
  MPI_Comm_free(&group.communicator);
}

using Notes = std::map<int, std::uint64_t>;

/// Reads the notes that have arrived, at most one per rank.
void read(MpiGroup& group, int tag, Notes& notes) {
  group.read_notes(tag, "test", [&](int peer, std::uint64_t note) {
    EXPECT_TRUE(notes.emplace(peer, note).second) << "another note of rank " << peer;
  });
}

/// Reads notes until all other ranks have sent one.
Notes await_notes(MpiGroup& group, int tag) {
  Notes notes;
  for (int i = 0; i < 60000 && notes.size() + 1 < static_cast<std::size_t>(group.size); ++i) {
    read(group, tag, notes);
    std::this_thread::sleep_for(std::chrono::milliseconds(1));
  }
  return notes;
}

TEST(MpiGroup, NotesReachAllOthers) {
  const auto meet = make_mpi_communicator({.timeout_seconds = 60});
  MpiGroup group = testing::make_raw_group();
  Notes expected;
  for (int peer = 0; peer < group.size; ++peer) {
    if (peer != group.rank) expected[peer] = 100u + static_cast<std::uint64_t>(peer);
  }
  MpiNote note;
  group.send_note(note, 100u + static_cast<std::uint64_t>(group.rank), kTag, "test");
  meet->barrier();
  Notes others;
  read(group, kTag + 1, others);
  EXPECT_TRUE(others.empty());
  Notes notes = await_notes(group, kTag);
  EXPECT_EQ(notes, expected);
  read(group, kTag, notes);  // no note is read twice
  meet->barrier();
  MPI_Comm_free(&group.communicator);
}

TEST(MpiGroup, DamagedNoteIsRefused) {
  const auto meet = make_mpi_communicator({.timeout_seconds = 60});
  if (meet->size() == 1) GTEST_SKIP() << "takes several ranks";
  MpiGroup group = testing::make_raw_group();
  if (group.rank == 1) {
    MpiNote note{.value = 7, .checksum = 7};
    MPI_Send(&note, sizeof(note), MPI_BYTE, 0, kTag, group.communicator);
  }
  if (group.rank == 0) {
    try {
      await_notes(group, kTag);
      ADD_FAILURE() << "it was accepted";
    } catch (const CommunicationError& error) {
      EXPECT_THAT(error.what(), AllOf(HasSubstr("rank 1 (host host1)"), HasSubstr("its checksum is 7")));
    }
    EXPECT_TRUE(group.is_broken);
  }
  meet->barrier();
}

TEST(MpiGroup, BusyRanksSaySoNowAndThen) {
  const auto meet = make_mpi_communicator({.timeout_seconds = 60});
  MpiGroup group = testing::make_raw_group(80);
  group.num_operations = 5;
  for (int i = 0; i < 100; ++i) group.send_heartbeat();  // sent only once: the calls take less than ten seconds
  meet->barrier();
  Notes notes = await_notes(group, kMpiHeartbeatTag);
  EXPECT_EQ(notes.size() + 1, static_cast<std::size_t>(group.size));
  meet->barrier();
  read(group, kMpiHeartbeatTag, notes);
  for (const auto& [peer, note] : notes) EXPECT_EQ(note, 5u) << peer;
  meet->barrier();
  group.is_broken = true;
  group.last_heartbeat = {};
  group.send_heartbeat();
  EXPECT_EQ(group.last_heartbeat, std::chrono::steady_clock::time_point()) << "there is nobody to tell";
  MPI_Comm_free(&group.communicator);
}

TEST(MpiGroup, AbandonedMemoryStays) {
  auto memory = std::make_shared<int>(1);
  const std::weak_ptr<int> watched = memory;
  abandon_to_mpi(std::move(memory));
  EXPECT_FALSE(watched.expired());
}

}  // namespace
}  // namespace terngrad::mpi_group_test
