#include "compress/comm/mpi/wait_graph.h"

#include <gtest/gtest.h>

namespace terngrad::wait_graph_test {
namespace {

WaitGraph::Clock::time_point at(double seconds) {
  return WaitGraph::Clock::time_point() +
         std::chrono::duration_cast<WaitGraph::Clock::duration>(std::chrono::duration<double>(1000 + seconds));
}

/// Looks often, as one who waits.
void wait(WaitGraph& waits, double from, double to) {
  for (int i = 1; i <= 200; ++i) waits.look(at(from + (to - from) * i / 200));
}

TEST(WaitGraph, NobodyWaitsAtFirst) {
  const WaitGraph waits(3, 10, at(0));
  for (int rank = 0; rank < 3; ++rank) {
    EXPECT_FALSE(waits.is_waiting(rank));
    EXPECT_FALSE(waits.has_arrived(rank));
    EXPECT_EQ(waits.end_of(rank), rank);
  }
}

TEST(WaitGraph, TheEndOfAChainDoesNotWait) {
  WaitGraph waits(5, 10, at(0));
  waits.record(0, 2, true, at(1));
  waits.record(2, 1, true, at(1));
  waits.record(1, 4, true, at(1));
  waits.look(at(1));
  for (const int rank : {0, 1, 2, 4}) EXPECT_EQ(waits.end_of(rank), 4) << rank;
  EXPECT_EQ(waits.end_of(3), 3);
  EXPECT_FALSE(waits.is_waiting(4));
  waits.record(1, 3, true, at(1));  // the last word counts
  EXPECT_EQ(waits.end_of(0), 3);
}

TEST(WaitGraph, InACircleAllWait) {
  WaitGraph waits(3, 10, at(0));
  waits.record(0, 1, true, at(0));
  waits.record(1, 2, true, at(0));
  waits.record(2, 0, true, at(0));
  for (int rank = 0; rank < 3; ++rank) EXPECT_TRUE(waits.is_waiting(waits.end_of(rank)));
}

// Who waits still would have said so again, so it has stopped or gone on since.
TEST(WaitGraph, WhatWasSaidLastsForAQuarterOfTheTimeout) {
  WaitGraph waits(2, 10, at(0));
  wait(waits, 0, 2);
  waits.record(0, 1, true, at(2));
  wait(waits, 2, 4.4);
  EXPECT_TRUE(waits.is_waiting(0));
  EXPECT_NEAR(waits.seconds_of_silence(0), 2.4, 1e-6);
  wait(waits, 4.4, 4.6);
  EXPECT_FALSE(waits.is_waiting(0));
  EXPECT_FALSE(waits.has_arrived(0));
}

TEST(WaitGraph, WhoGivesUpIsFollowedForEver) {
  WaitGraph waits(4, 10, at(0));
  waits.record(0, 1, true, at(0));
  waits.record_failure(0, 2, at(1));
  wait(waits, 0, 30);
  EXPECT_TRUE(waits.is_waiting(0));
  EXPECT_EQ(waits.end_of(0), 2);
  // It had the announcements of the ranks before the one for which it waited, and perhaps no others.
  EXPECT_TRUE(waits.has_arrived(0));
  EXPECT_FALSE(waits.has_arrived(1));
}

TEST(WaitGraph, ARankHasArrivedWhoseAnnouncementOneThatWaitsHas) {
  WaitGraph waits(8, 10, at(0));
  waits.record(6, 2, true, at(0));
  for (int rank = 0; rank < 8; ++rank) EXPECT_EQ(waits.has_arrived(rank), rank >= 6 || rank < 2) << rank;
  waits.record(2, 3, false, at(0));  // still in the operation before
  EXPECT_FALSE(waits.has_arrived(2));
}

}  // namespace
}  // namespace terngrad::wait_graph_test
