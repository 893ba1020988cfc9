// StopSignal: Ctrl-C as a request, not an end.
#pragma once

namespace terngrad {

/// While one exists, the first SIGINT (Ctrl-C), SIGTERM or SIGHUP (a session that is lost) of the process is noted and
/// ends waiting instead of the process, so that a command can finish what it does and end cleanly. A second one of the
/// same kind ends the process at once, as usual, if it arrives kRepeatMilliseconds after the first or later. Earlier
/// ones are the same request sent twice: timeout(1) and batch systems signal a process and then its group. A signal
/// that was ignored before, as under nohup, stays ignored. At most one exists at a time. In a program that computes
/// nets on the CPU it needs take_stop_signals_in_own_thread (trainers/launch/signal_thread.h), which program_main
/// calls.
class StopSignal {
 public:
  static constexpr int kRepeatMilliseconds = 1000;

  /// @throws InvalidArgument if there is one already; Error if the system refuses
  StopSignal();
  StopSignal(const StopSignal&) = delete;
  StopSignal& operator=(const StopSignal&) = delete;
  /// Puts back what was there before.
  ~StopSignal();

  /// Waits `seconds`, or until a signal arrives or if one has arrived before. @returns true if one has
  bool wait(double seconds);

  /// The signal that has arrived last, 0 if none has.
  int received() const;
};

/// "SIGINT", "SIGTERM", "SIGHUP", or "a signal".
const char* signal_name(int signal);

}  // namespace terngrad
