// StopSignal: handles Ctrl-C as a request to stop.
#pragma once

namespace terngrad {

/// While one exists, the first SIGINT (Ctrl-C), SIGTERM or SIGHUP (lost session) is recorded and ends `wait` instead of
/// the process, so that a command can stop cleanly. A second signal of the same kind ends the process at once if it
/// arrives at least kRepeatMilliseconds after the first; an earlier one counts as the same request, as timeout(1) and
/// batch systems signal a process and then its group. Signals that were ignored before, as under nohup, stay ignored.
/// At most one instance at a time. Programs that compute nets on the CPU need take_stop_signals_in_own_thread
/// (trainers/launch/signal_thread.h), which program_main calls.
class StopSignal {
 public:
  static constexpr int kRepeatMilliseconds = 1000;

  /// @throws InvalidArgument if one exists already; Error if the system refuses
  StopSignal();
  StopSignal(const StopSignal&) = delete;
  StopSignal& operator=(const StopSignal&) = delete;
  /// Restores the previous signal handlers.
  ~StopSignal();

  /// Waits for `seconds` or until a signal arrives, which may have happened before. @returns true if one has arrived
  bool wait(double seconds);

  /// The last signal that arrived; 0 for none.
  int received() const;
};

/// "SIGINT", "SIGTERM", "SIGHUP", or "a signal".
const char* signal_name(int signal);

}  // namespace terngrad
