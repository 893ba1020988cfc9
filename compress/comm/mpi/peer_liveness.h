// PeerLiveness: for how long the other ranks have been silent.
#pragma once

#include <chrono>
#include <vector>

namespace terngrad {

/// When each rank gave its last sign of life, as a rank sees it that waits for others with a timeout.
///
/// Only the others' silence counts. Where more than a tenth of the timeout passes between two looks, this process did
/// not wait but was stopped or busy elsewhere, so that time is taken off every rank's silence; and if it was stopped,
/// then perhaps with all others, whose messages need a moment to come in: half of the timeout.
class PeerLiveness {
 public:
  using Clock = std::chrono::steady_clock;

  /// All ranks have given one just now.
  PeerLiveness(int num_ranks, double timeout_seconds, Clock::time_point now = Clock::now());

  void record_activity(int rank, Clock::time_point now = Clock::now());
  void look(Clock::time_point now = Clock::now());

  /// At the last look and not later: this process may be stopped at any moment.
  double seconds_of_silence(int rank) const;
  /// Whether at the last look nobody was to be called lost yet, because this process itself had been away.
  bool in_grace_period() const { return last_look_ < lenient_until_; }

 private:
  std::vector<Clock::time_point> last_signs_;  // [num_ranks]
  double timeout_seconds_;
  Clock::time_point last_look_;
  Clock::time_point lenient_until_ = Clock::time_point::min();
};

}  // namespace terngrad
