#include "compress/comm/mpi/mpi_mailbox.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <mpi.h>

#include <cstring>
#include <thread>

#include "compress/comm/mpi/mpi_communicator.h"
#include "compress/comm/mpi/mpi_session.h"
#include "kernels/runtime/errors.h"
#include "support/mailbox_conformance.h"
#include "tests/mpi/raw_group.h"

namespace terngrad::mpi_mailbox_test {
namespace {

using ::testing::AllOf;
using ::testing::HasSubstr;

TEST(MpiMailbox, DoesWhatMailboxesDo) {
  const auto c = make_mpi_communicator({.timeout_seconds = 60});
  const auto m = c->make_mailbox();
  EXPECT_EQ(m->rank(), c->rank());
  EXPECT_EQ(m->size(), c->size());
  testing::check_mailbox(*m, [&] { c->barrier(); });
}

TEST(MpiMailbox, SplitsLongMessagesIntoPieces) {
  // Ranks may split messages into chunks of different sizes.
  const std::size_t chunk_bytes = 512 + 256 * static_cast<std::size_t>(launched_rank().rank);
  const auto c = make_mpi_communicator({.timeout_seconds = 60, .chunk_bytes = chunk_bytes});
  const auto m = c->make_mailbox();
  testing::check_mailbox(*m, [&] { c->barrier(); });
}

TEST(MpiMailbox, MessagesMeetNoOthers) {
  const auto c = make_mpi_communicator({.timeout_seconds = 60});
  if (c->size() == 1) GTEST_SKIP() << "takes several ranks";
  const auto one = c->make_mailbox();
  const auto other = c->make_mailbox();
  for (const int to : testing::other_ranks(*one)) {
    one->send(to, testing::test_message(1, 1, 1, 10));
    other->send(to, testing::test_message(2, 2, 2, 10));
  }
  c->barrier();  // barrier of the communicator, not of the mailbox
  Parcels message;
  for (std::size_t i = 0; i + 1 < static_cast<std::size_t>(c->size()); ++i) {
    other->receive(testing::other_ranks(*other), message);
    EXPECT_EQ(message.count(), 2u);
    one->receive(testing::other_ranks(*one), message);
    EXPECT_EQ(message.count(), 1u);
  }
  one->flush();
  other->flush();
  c->barrier();
}

TEST(MpiMailbox, NamesWhoIsSilent) {
  const auto meet = make_mpi_communicator({.timeout_seconds = 60});
  if (meet->size() == 1) GTEST_SKIP() << "takes several ranks";
  {
    const auto c = make_mpi_communicator({.timeout_seconds = 1});
    const auto m = c->make_mailbox();
    testing::check_silence(*m, 1);
    if (m->rank() == 0) {
      Parcels message;
      EXPECT_THROW(m->receive(testing::other_ranks(*m), message), CommunicationError);
      EXPECT_THROW(m->send(1, Parcels()), CommunicationError);
    }
    meet->barrier();
  }
}

TEST(MpiMailbox, TimeThatARankSpendsElsewhereIsNoSilenceOfOthers) {
  const auto meet = make_mpi_communicator({.timeout_seconds = 60});
  if (meet->size() == 1) GTEST_SKIP() << "takes several ranks";
  const auto c = make_mpi_communicator({.timeout_seconds = 1});
  const auto m = c->make_mailbox();
  Parcels message;
  if (m->rank() == 0) {
    std::this_thread::sleep_for(std::chrono::milliseconds(1500));  // for example an evaluation
    for (int i = 1; i < m->size(); ++i) EXPECT_NO_THROW(m->receive(testing::other_ranks(*m), message));
  } else {
    // Arrives shortly after rank 0 has begun to wait.
    std::this_thread::sleep_for(std::chrono::milliseconds(1700));
    m->send(0, testing::test_message(0, 0, 3, 1000));
    m->flush();
  }
  meet->barrier();
}

TEST(MpiMailbox, WhoSaysThatItIsBusyIsAwaited) {
  const auto meet = make_mpi_communicator({.timeout_seconds = 60});
  if (meet->size() == 1) GTEST_SKIP() << "takes several ranks";
  const auto c = make_mpi_communicator({.timeout_seconds = 1});
  const auto m = c->make_mailbox();
  if (m->rank() == 1) {
    for (int i = 0; i < 100; ++i) {
      m->send_heartbeat();
      std::this_thread::sleep_for(std::chrono::milliseconds(25));
    }
    for (int to = 0; to < m->size(); ++to) {
      if (to != 1) m->send(to, testing::test_message(0, 0, 3, 1000));
    }
    m->flush();
  } else {
    const std::vector<int> awaited = {1};
    Parcels message;
    EXPECT_EQ(m->receive(awaited, message), 1);
  }
  meet->barrier();
}

TEST(MpiMailbox, WhatHasNoHeaderIsRefused) {
  const auto meet = make_mpi_communicator({.timeout_seconds = 60});
  if (meet->size() == 1) GTEST_SKIP() << "takes several ranks";
  for (const std::size_t bytes : {std::size_t{3}, std::size_t{48}, std::size_t{4096}}) {
    const MpiGroup group = testing::make_raw_group();
    if (group.rank == 1) {
      const std::vector<std::uint8_t> noise(bytes, 0x5a);
      MPI_Send(noise.data(), static_cast<int>(bytes), MPI_BYTE, 0, 1, group.communicator);
    }
    if (group.rank == 0) {
      const auto m = make_mpi_mailbox(group);
      Parcels message;
      try {
        m->receive(testing::other_ranks(*m), message);
        ADD_FAILURE() << "noise of " << bytes << " bytes was accepted";
      } catch (const CommunicationError& error) {
        EXPECT_THAT(error.what(), AllOf(HasSubstr("rank 1 (host host1)"),
                                        HasSubstr("is not as this version of the program sends it")));
      }
    }
    meet->barrier();
  }
}

}  // namespace
}  // namespace terngrad::mpi_mailbox_test
