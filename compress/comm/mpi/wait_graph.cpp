#include "compress/comm/mpi/wait_graph.h"

namespace terngrad {

WaitGraph::WaitGraph(int num_ranks, double timeout_seconds, Clock::time_point now)
    : waits_(static_cast<std::size_t>(num_ranks)),
      timeout_seconds_(timeout_seconds),
      told_(num_ranks, timeout_seconds, now) {}

void WaitGraph::record(int rank, int target, bool in_operation, Clock::time_point now) {
  waits_[static_cast<std::size_t>(rank)] = {.target = target, .first_missing = in_operation ? target : -1};
  told_.record_activity(rank, now);
}

void WaitGraph::record_failure(int rank, int target, Clock::time_point now) {
  Wait& wait = waits_[static_cast<std::size_t>(rank)];
  wait.target = target;
  wait.gives_up = true;
  told_.record_activity(rank, now);
}

void WaitGraph::look(Clock::time_point now) { told_.look(now); }

bool WaitGraph::is_waiting(int rank) const {
  const Wait& wait = waits_[static_cast<std::size_t>(rank)];
  return wait.target >= 0 && (wait.gives_up || seconds_of_silence(rank) <= timeout_seconds_ / 4);
}

int WaitGraph::end_of(int rank) const {
  for (int i = 0; i < num_ranks() && is_waiting(rank); ++i) rank = waits_[static_cast<std::size_t>(rank)].target;
  return rank;
}

bool WaitGraph::has_arrived(int rank) const {
  for (int waiting = 0; waiting < num_ranks(); ++waiting) {
    const Wait& wait = waits_[static_cast<std::size_t>(waiting)];
    if (wait.first_missing >= 0 && is_waiting(waiting) &&
        distance(waiting, rank) < distance(waiting, wait.first_missing)) {
      return true;
    }
  }
  return false;
}

}  // namespace terngrad
