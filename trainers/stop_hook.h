// Stopping a run early, so that it can be resumed: after a time, or at a signal.
#pragma once

#include <csignal>
#include <memory>

#include "trainers/hook.h"
#include "trainers/progress.h"

namespace terngrad {

/// While it lives, SIGINT (Ctrl-C) and SIGTERM are noted instead of ending the process; the second one ends it at once.
/// One at a time in a process.
class StopSignals {
 public:
  StopSignals();
  ~StopSignals();
  StopSignals(const StopSignals&) = delete;
  StopSignals& operator=(const StopSignals&) = delete;

  /// The signal that was noted, 0 if none was.
  static int received();

 private:
  using Handler = void (*)(int);
  Handler old_interrupt_;
  Handler old_terminate_;
};

/// "SIGINT", "SIGTERM", or "a signal".
const char* signal_name(int signal);

/// Asks to stop after the step in which a signal was noted (StopSignals), or in which `stop_after_seconds` of wall time
/// since before_train have passed (0: never), and says so. The run is then saved like a finished one and can be
/// resumed.
/// @throws InvalidArgument for a negative or NaN time
std::unique_ptr<Hook> make_stop_hook(ProgressDisplay& display, double stop_after_seconds);

}  // namespace terngrad
