// PeerLiveness: time since the last activity of each peer.
#pragma once

#include <chrono>
#include <vector>

namespace terngrad {

/// Last activity of each rank, for a rank that waits for others with a timeout.
///
/// If more than a tenth of the timeout passes between two looks, this process was not waiting but stopped or busy
/// elsewhere. That time is then subtracted from every rank's silence, and for half of the timeout there is a grace
/// period: all processes may have been stopped, and messages need time to arrive.
class PeerLiveness {
 public:
  using Clock = std::chrono::steady_clock;

  /// All ranks count as active now.
  PeerLiveness(int num_ranks, double timeout_seconds, Clock::time_point now = Clock::now());

  /// Records a message or heartbeat of a rank.
  void record_activity(int rank, Clock::time_point now = Clock::now());
  /// Updates the time; call it often while waiting.
  void look(Clock::time_point now = Clock::now());

  /// Silence as of the last look, not of now: this process may be stopped at any moment.
  double seconds_of_silence(int rank) const;
  /// True in the grace period as of the last look: no rank may be called lost, since this process was not waiting.
  bool in_grace_period() const { return last_look_ < lenient_until_; }

 private:
  std::vector<Clock::time_point> last_signs_;  // [num_ranks]
  double timeout_seconds_;
  Clock::time_point last_look_;
  Clock::time_point lenient_until_ = Clock::time_point::min();
};

}  // namespace terngrad
