#include "compress/comm/mpi/peer_liveness.h"

#include <gtest/gtest.h>

namespace terngrad::peer_liveness_test {
namespace {

PeerLiveness::Clock::time_point at(double seconds) {
  return PeerLiveness::Clock::time_point() +
         std::chrono::duration_cast<PeerLiveness::Clock::duration>(std::chrono::duration<double>(1000 + seconds));
}

/// Calls look() often, as a waiting rank does.
void wait(PeerLiveness& signs, double from, double to) {
  for (int i = 1; i <= 200; ++i) signs.look(at(from + (to - from) * i / 200));
}

TEST(PeerLiveness, SilenceIsSinceTheLastSign) {
  PeerLiveness signs(3, 10, at(0));
  wait(signs, 0, 4);
  signs.record_activity(1, at(4));
  wait(signs, 4, 7);
  EXPECT_NEAR(signs.seconds_of_silence(0), 7, 1e-6);
  EXPECT_NEAR(signs.seconds_of_silence(1), 3, 1e-6);
  EXPECT_NEAR(signs.seconds_of_silence(2), 7, 1e-6);
  EXPECT_FALSE(signs.in_grace_period());
}

TEST(PeerLiveness, TimePassesWithLooksOnly) {
  PeerLiveness signs(1, 10, at(0));
  signs.look(at(0.9));
  signs.record_activity(0, at(0.5));
  EXPECT_NEAR(signs.seconds_of_silence(0), 0.4, 1e-6);
  signs.look(at(1.8));
  EXPECT_NEAR(signs.seconds_of_silence(0), 1.3, 1e-6);
}

TEST(PeerLiveness, OwnAbsenceIsNoSilenceOfOthers) {
  PeerLiveness signs(2, 10, at(0));
  wait(signs, 0, 3);
  signs.look(at(103));
  EXPECT_NEAR(signs.seconds_of_silence(0), 3, 1e-6);
  wait(signs, 103, 106);
  EXPECT_NEAR(signs.seconds_of_silence(0), 6, 1e-6);
}

TEST(PeerLiveness, AbsenceBeginsWithATenthOfTheTimeout) {
  PeerLiveness signs(1, 10, at(0));
  signs.look(at(0.99));
  EXPECT_NEAR(signs.seconds_of_silence(0), 0.99, 1e-6);
  EXPECT_FALSE(signs.in_grace_period());
  signs.look(at(2));
  EXPECT_NEAR(signs.seconds_of_silence(0), 0.99, 1e-6);
  EXPECT_TRUE(signs.in_grace_period());
}

TEST(PeerLiveness, AfterAnAbsenceMessagesHaveAMoment) {
  PeerLiveness signs(1, 10, at(0));
  signs.look(at(100));
  wait(signs, 100, 104.9);
  EXPECT_TRUE(signs.in_grace_period());
  wait(signs, 104.9, 105.1);
  EXPECT_FALSE(signs.in_grace_period());
}

TEST(PeerLiveness, NobodyIsHeardInTheFuture) {
  PeerLiveness signs(2, 10, at(0));
  signs.record_activity(0, at(99));  // discovered before the next look
  signs.look(at(100));
  EXPECT_NEAR(signs.seconds_of_silence(0), 0, 1e-6);
  EXPECT_NEAR(signs.seconds_of_silence(1), 0, 1e-6);
}

}  // namespace
}  // namespace terngrad::peer_liveness_test
