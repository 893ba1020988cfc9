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
constexpr int kWaitingTag = 4;

/// What a rank sends that waits for `target` in an operation.
std::uint64_t waiting_note(std::uint64_t operation, int target) {
  return operation << 24 | static_cast<std::uint64_t>(target);
}

int after(const MpiGroup& group, int distance) { return (group.rank + distance + group.size) % group.size; }

/// What a wait for the rank after this one fails with, which it must.
std::string failure_of_wait_for_next(MpiGroup& group, int num_arrived) {
  MpiRequests requests(group, "test", 7);
  requests.set_num_arrived(num_arrived);
  const auto memory = std::make_shared<std::vector<std::uint8_t>>(8);
  requests.keep(memory);
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

/// Takes pieces as large as `word` from a peer, one after the other, then sends rank 0 the word for which it waits.
void take_pieces_then_send(MpiGroup& group, int peer, std::size_t num_pieces, const std::vector<std::uint8_t>& word) {
  MpiRequests requests(group, "test", 7);
  std::vector<std::vector<std::uint8_t>> pieces(num_pieces, word);
  for (std::vector<std::uint8_t>& piece : pieces) requests.receive(peer, piece, kTag, Purpose::kReceive);
  EXPECT_NO_THROW(requests.await({Purpose::kReceive}));
  MPI_Send(word.data(), static_cast<int>(word.size()), MPI_BYTE, 0, kTag, group.communicator);
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
    requests.keep(std::move(memory));
  }
  EXPECT_TRUE(group.is_broken);
  EXPECT_FALSE(watched.expired());
  make_mpi_communicator()->barrier();
}

// Each rank waits for the next one: only the first of them waits for the one that is silent.
TEST(MpiRequests, TheSilentRankIsNamedAtTheEndOfAChain) {
  MpiGroup group = testing::make_raw_group(1);
  if (group.size == 1) GTEST_SKIP() << "takes several ranks";
  const int silent = group.size - 1;
  if (group.rank != silent) {
    const auto begin = std::chrono::steady_clock::now();
    EXPECT_EQ(failure_of_wait_for_next(group, group.size), "[mpi] test: " + group.name_of(group.rank) +
                                                               " has heard nothing from " + group.name_of(silent) +
                                                               " for 1 seconds");
    const auto end = std::chrono::steady_clock::now();
    EXPECT_GE(end - begin, std::chrono::seconds(1));
    EXPECT_LT(end - begin, std::chrono::seconds(4));
  }
  make_mpi_communicator()->barrier();
}

// One that waits tells so as soon as others do, however late it comes.
TEST(MpiRequests, ARankThatComesLateAndWaitsIsNotNamed) {
  MpiGroup group = testing::make_raw_group(2);
  if (group.size < 3) GTEST_SKIP() << "takes three ranks";
  const int silent = group.size - 1;
  if (group.rank == silent - 1) std::this_thread::sleep_for(std::chrono::milliseconds(1700));
  if (group.rank != silent) {
    EXPECT_THAT(failure_of_wait_for_next(group, 1), HasSubstr("heard nothing from " + group.name_of(silent) + " for"));
  }
  make_mpi_communicator()->barrier();
}

TEST(MpiRequests, AllThatHaveNotArrivedAreNamed) {
  MpiGroup group = testing::make_raw_group(1);
  if (group.size < 3) GTEST_SKIP() << "takes three ranks";
  if (group.rank < group.size - 2) {
    EXPECT_THAT(failure_of_wait_for_next(group, 1), HasSubstr("heard nothing from " + group.name_of(group.size - 2) +
                                                              ", " + group.name_of(group.size - 1) + " for 1 seconds"));
  }
  make_mpi_communicator()->barrier();
}

// Every rank has arrived, and some have done everything and left: one that is stopped in between is named alone.
TEST(MpiRequests, RanksThatHaveLeftAreNotNamed) {
  MpiGroup group = testing::make_raw_group(1);
  if (group.size < 4) GTEST_SKIP() << "takes four ranks";
  const int stopped = group.size - 2;
  if (group.rank == 0) {
    // It waits for the one that is stopped, so it has the announcements of those before.
    MpiNote note;
    for (int i = 0; i < 15; ++i) {
      group.send_note(note, waiting_note(7, stopped), kWaitingTag, "test");
      std::this_thread::sleep_for(std::chrono::milliseconds(100));
    }
  }
  if (group.rank == group.size - 1) {
    EXPECT_THAT(failure_of_wait_for_next(group, 1),
                HasSubstr("heard nothing from " + group.name_of(stopped) + " for 1"));
  }
  make_mpi_communicator()->barrier();
}

// What it said before, that it waits for a rank that has come since, must not point at that one.
TEST(MpiRequests, ARankThatStopsAfterItToldIsNamed) {
  MpiGroup group = testing::make_raw_group(1);
  if (group.size < 3) GTEST_SKIP() << "takes three ranks";
  MpiNote note;
  if (group.rank == 0) {
    std::this_thread::sleep_for(std::chrono::milliseconds(600));
    group.send_note(note, waiting_note(7, 1), kWaitingTag, "test");
  }
  if (group.rank == 1) {  // has ended the operation, and computes
    group.num_operations = 8;
    group.send_heartbeat();
  }
  if (group.rank == group.size - 1) {
    EXPECT_THAT(failure_of_wait_for_next(group, 1), HasSubstr("heard nothing from " + group.name_of(0) + " for 1"));
  }
  make_mpi_communicator()->barrier();
}

// A rank that waits in the next operation has ended this one, which all ranks have reached then.
TEST(MpiRequests, ANoteOfTheNextOperationTellsThatAllHaveArrived) {
  MpiGroup group = testing::make_raw_group(1);
  if (group.size < 4) GTEST_SKIP() << "takes four ranks";
  if (group.rank == 1) {
    MpiNote note;
    for (int i = 0; i < 15; ++i) {
      group.send_note(note, waiting_note(8, 2), kWaitingTag, "test");
      std::this_thread::sleep_for(std::chrono::milliseconds(100));
    }
  }
  if (group.rank == group.size - 1) {
    EXPECT_THAT(failure_of_wait_for_next(group, 1), HasSubstr("heard nothing from " + group.name_of(0) + " for 1"));
  }
  make_mpi_communicator()->barrier();
}

// Rank 0 waits for rank 1, which waits for the last one, which says that it waits for rank 0: but pieces flow.
TEST(MpiRequests, RanksBetweenWhichMessagesFlowAreNotADeadlock) {
  MpiGroup group = testing::make_raw_group(1);
  if (group.size < 3) GTEST_SKIP() << "takes three ranks";
  const int last = group.size - 1;
  std::vector<std::uint8_t> word(8);
  if (group.rank == 0) {
    MpiRequests requests(group, "test", 7);
    requests.receive(1, word, kTag, Purpose::kReceive);
    EXPECT_NO_THROW(requests.await({Purpose::kReceive}));
  } else if (group.rank == 1) {
    take_pieces_then_send(group, last, 20, word);
  } else if (group.rank == last) {
    MpiNote note;
    for (int i = 0; i < 20; ++i) {
      group.send_note(note, waiting_note(7, 0), kWaitingTag, "test");
      MPI_Send(word.data(), static_cast<int>(word.size()), MPI_BYTE, 1, kTag, group.communicator);
      std::this_thread::sleep_for(std::chrono::milliseconds(100));
    }
  }
  make_mpi_communicator()->barrier();
}

// Rank 0 waits in the next operation for rank 1, to which so many pieces come that it is never without one for long.
TEST(MpiRequests, ARankWhoseMessagesFlowIsNotNamed) {
  MpiGroup group = testing::make_raw_group(0.5);
  if (group.size < 3) GTEST_SKIP() << "takes three ranks";
  const int last = group.size - 1;
  std::vector<std::uint8_t> word(8);
  if (group.rank == 0) {
    MpiRequests requests(group, "test", 8);
    requests.receive(1, word, kTag, Purpose::kHead);
    EXPECT_NO_THROW(requests.await({Purpose::kHead}));
  } else if (group.rank == 1) {
    take_pieces_then_send(group, last, 300, word);
  } else if (group.rank == last) {
    MpiNote note;
    MpiNote heartbeat;
    for (int i = 0; i < 300; ++i) {
      if (i % 15 == 0) {
        group.send_note(heartbeat, 7, kMpiHeartbeatTag, "test");
        group.send_note(note, waiting_note(7, 1), kWaitingTag, "test");
      }
      MPI_Send(word.data(), static_cast<int>(word.size()), MPI_BYTE, 1, kTag, group.communicator);
      std::this_thread::sleep_for(std::chrono::milliseconds(3));
    }
  }
  make_mpi_communicator()->barrier();
}

// Rank 1 begins to wait for rank 0 before that one gives up because of the silent rank, and still waits long after.
TEST(MpiRequests, ARankThatGivesUpSaysBecauseOfWhom) {
  MpiGroup group = testing::make_raw_group(0.5);
  if (group.size < 3) GTEST_SKIP() << "takes three ranks";
  const int silent = group.size - 1;
  if (group.rank < 2) {
    if (group.rank == 1) std::this_thread::sleep_for(std::chrono::milliseconds(350));
    MpiRequests requests(group, "test", 7);
    const auto memory = std::make_shared<std::vector<std::uint8_t>>(8);
    requests.keep(memory);
    requests.receive(group.rank == 0 ? silent : 0, *memory, kTag, Purpose::kHead);
    try {
      requests.await({Purpose::kHead});
      ADD_FAILURE() << "nothing was missed";
    } catch (const CommunicationError& error) {
      EXPECT_THAT(error.what(), HasSubstr("heard nothing from " + group.name_of(silent) + " for 0.5 seconds"));
    }
    if (group.rank == 0) std::this_thread::sleep_for(std::chrono::milliseconds(1500));
  }
  make_mpi_communicator()->barrier();
}

// What was told in an operation before and is read only now costs no messages.
TEST(MpiRequests, OldNotesAreNotAnsweredInTheUsualTime) {
  MpiGroup group = testing::make_raw_group(60);
  if (group.size == 1) GTEST_SKIP() << "takes several ranks";
  MpiNote note;
  if (group.rank == 0) group.send_note(note, waiting_note(6, 1), kWaitingTag, "test");
  make_mpi_communicator()->barrier();
  {
    MpiRequests requests(group, "test", 7);
    const std::vector<std::uint8_t> sent(8);
    std::vector<std::uint8_t> received(8);
    if (group.rank == 0) std::this_thread::sleep_for(std::chrono::milliseconds(100));
    requests.send(after(group, -1), sent, kTag);
    requests.receive(after(group, 1), received, kTag, Purpose::kHead);
    requests.await({Purpose::kHead, Purpose::kSend});
    requests.tell_that_it_has_ended();
  }
  make_mpi_communicator()->barrier();
  for (const int tag : {kWaitingTag, kMpiHeartbeatTag}) {
    group.read_notes(tag, "test", [&](int peer, std::uint64_t) { EXPECT_EQ(peer, 0) << tag; });
  }
  MPI_Comm_free(&group.communicator);
}

TEST(MpiRequests, TheShortestTimeoutEnds) {
  MpiGroup group = testing::make_raw_group(0.01);
  if (group.size == 1) GTEST_SKIP() << "takes several ranks";
  if (group.rank == 0) {
    EXPECT_THAT(failure_of_wait_for_next(group, group.size), HasSubstr("heard nothing from " + group.name_of(1)));
  }
  make_mpi_communicator()->barrier();
}

TEST(MpiRequests, RanksThatWaitForEachOtherSayThat) {
  MpiGroup group = testing::make_raw_group(0.5);
  if (group.size == 1) GTEST_SKIP() << "takes several ranks";
  EXPECT_THAT(
      failure_of_wait_for_next(group, group.size),
      HasSubstr("heard nothing from " + group.name_of(after(group, 1)) + " for 0.5 seconds, which waits for others"));
  make_mpi_communicator()->barrier();
}

// A rank that stops after it has said what it sends: the others are done except for what it is to take.
TEST(MpiRequests, ThePeerThatTakesNothingIsNamed) {
  MpiGroup group = testing::make_raw_group(1);
  if (group.size == 1) GTEST_SKIP() << "takes several ranks";
  const int stopped = group.size - 1;
  if (group.rank != stopped) {
    MpiRequests requests(group, "test", 0);
    const auto data =
        std::make_shared<std::vector<std::uint8_t>>(8 << 20);  // more than is taken before it is asked for
    requests.keep(data);
    requests.send(stopped, *data, kTag);
    try {
      requests.await({Purpose::kSend});
      ADD_FAILURE() << "nothing was missed";
    } catch (const CommunicationError& error) {
      EXPECT_EQ(std::string(error.what()), "[mpi] test: " + group.name_of(stopped) + " has taken nothing from " +
                                               group.name_of(group.rank) + " for 1 seconds: it hangs or is gone");
    }
  }
  make_mpi_communicator()->barrier();
}

// Whoever waits for a rank that does not come cannot take what others send it: it is not the one to name.
TEST(MpiRequests, APeerThatTakesNothingBecauseItWaitsIsNotNamed) {
  MpiGroup group = testing::make_raw_group(0.5);
  if (group.size < 3) GTEST_SKIP() << "takes three ranks";
  const int late = group.size - 1;
  if (group.rank == 0) {
    MpiRequests requests(group, "test", 7);
    const auto data = std::make_shared<std::vector<std::uint8_t>>(8 << 20);
    requests.keep(data);
    requests.send(1, *data, kTag + 1);
    try {
      requests.await({Purpose::kSend});
      ADD_FAILURE() << "nothing was missed";
    } catch (const CommunicationError& error) {
      EXPECT_THAT(error.what(), HasSubstr("heard nothing from " + group.name_of(late) + " for"));
    }
  } else if (group.rank != late) {
    EXPECT_THAT(failure_of_wait_for_next(group, group.size), HasSubstr("nothing from " + group.name_of(late) + " for"));
  }
  make_mpi_communicator()->barrier();
}

// What was told in the operation before says whom a rank waits for that has not come to this one.
TEST(MpiRequests, ARankThatWaitsInTheOperationBeforeIsNotNamed) {
  MpiGroup group = testing::make_raw_group(1);
  if (group.size < 3) GTEST_SKIP() << "takes three ranks";
  const int silent = group.size - 1;
  if (group.rank != silent) {
    MpiRequests requests(group, "test", group.rank == 0 ? 7 : 8);
    requests.set_num_arrived(1);
    const auto memory = std::make_shared<std::vector<std::uint8_t>>(8);
    requests.keep(memory);
    requests.receive(group.rank == 0 ? silent : 0, *memory, kTag, Purpose::kHead);
    try {
      requests.await({Purpose::kHead});
      ADD_FAILURE() << "nothing was missed";
    } catch (const CommunicationError& error) {
      EXPECT_THAT(error.what(), HasSubstr("heard nothing from " + group.name_of(silent) + " for 1 seconds"));
    }
  }
  make_mpi_communicator()->barrier();
}

}  // namespace
}  // namespace terngrad::mpi_requests_test
