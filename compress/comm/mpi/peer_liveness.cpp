#include "compress/comm/mpi/peer_liveness.h"

#include <algorithm>
#include <utility>

namespace terngrad {

using Seconds = std::chrono::duration<double>;

PeerLiveness::PeerLiveness(int num_ranks, double timeout_seconds, Clock::time_point now)
    : last_signs_(static_cast<std::size_t>(num_ranks), now), timeout_seconds_(timeout_seconds), last_look_(now) {}

void PeerLiveness::record_activity(int rank, Clock::time_point now) {
  last_signs_[static_cast<std::size_t>(rank)] = now;
}

void PeerLiveness::look(Clock::time_point now) {
  const auto absence = now - std::exchange(last_look_, now);
  if (Seconds(absence).count() < timeout_seconds_ / 10) return;
  for (Clock::time_point& sign : last_signs_) sign = std::min(now, sign + absence);
  lenient_until_ = now + std::chrono::duration_cast<Clock::duration>(Seconds(timeout_seconds_ / 2));
}

double PeerLiveness::seconds_of_silence(int rank) const {
  return Seconds(last_look_ - last_signs_[static_cast<std::size_t>(rank)]).count();
}

}  // namespace terngrad
