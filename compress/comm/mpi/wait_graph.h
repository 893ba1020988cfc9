// WaitGraph: which ranks wait for which, by what they say of themselves.
#pragma once

#include <vector>

#include "compress/comm/mpi/peer_liveness.h"

namespace terngrad {

/// What ranks that wait for long have told each other. A rank is relied on by others that get through it what a third
/// one has sent: where it waits itself, the one to name is at the end of the chain.
class WaitGraph {
 public:
  using Clock = PeerLiveness::Clock;

  WaitGraph(int num_ranks, double timeout_seconds, Clock::time_point now = Clock::now());

  /// `rank` says that it waits for `target`.
  /// @param in_operation  whether it has come to this rank's operation, so that it lacks the announcements from
  /// `target`'s on and has those before it, in a circle that begins with its own
  void record(int rank, int target, bool in_operation, Clock::time_point now = Clock::now());
  /// `rank` says that it gives up, because of `target`: it will neither repeat that nor come again.
  void record_failure(int rank, int target, Clock::time_point now = Clock::now());
  void look(Clock::time_point now = Clock::now());

  /// Whether it has said so within the last quarter of the timeout: a living rank repeats it every eighth, and one that
  /// has stopped since, or has what it waited for, is not a link of a chain any more. One that gives up stays one.
  bool is_waiting(int rank) const;
  /// The rank for which `rank` waits, or for which that one waits, and so on: one that is not known to wait, or any of
  /// those that wait for each other.
  int end_of(int rank) const;
  /// Whether a rank that waits is known to have the announcement of `rank`. Sufficient only: false where no note tells,
  /// although `rank` may have arrived.
  bool has_arrived(int rank) const;
  /// Since it last said that it waits, or the beginning.
  double seconds_of_silence(int rank) const { return told_.seconds_of_silence(rank); }

 private:
  struct Wait {
    int target = -1;
    int first_missing = -1;  // it has the announcements of the ranks before this one; -1: not known
    bool gives_up = false;
  };
  int num_ranks() const { return static_cast<int>(waits_.size()); }
  /// How far behind `from` a rank comes in the circle.
  int distance(int from, int to) const { return (to - from + num_ranks()) % num_ranks(); }

  std::vector<Wait> waits_;  // [num_ranks]
  double timeout_seconds_;
  PeerLiveness told_;
};

}  // namespace terngrad
