// Calls of the library without the interpreter lock (GIL).
#pragma once

#include <nanobind/nanobind.h>

#include <atomic>

namespace terngrad::python {

/// Releases the GIL for a call and counts calls in progress. Python kills a thread that reacquires the GIL during
/// finalization in the middle of C++ code, so exit waits for the calls (wait_for_calls).
class UnlockedCall {
 public:
  /// During finalization it returns only in the finalizing thread and blocks in all others.
  UnlockedCall();
  ~UnlockedCall();
  UnlockedCall(const UnlockedCall&) = delete;
  UnlockedCall& operator=(const UnlockedCall&) = delete;

 private:
  PyThreadState* state_;
};

/// Stops new calls, and waits for the ones in progress for at most `seconds`.
void wait_for_calls(double seconds);

/// Marks an exchange as in use during its lifetime. @throws InvalidArgument if it is in use: one call at a time, from
/// any thread
class CallGuard {
 public:
  explicit CallGuard(std::atomic<bool>& in_use);
  ~CallGuard() { in_use_ = false; }
  CallGuard(const CallGuard&) = delete;
  CallGuard& operator=(const CallGuard&) = delete;

 private:
  std::atomic<bool>& in_use_;
};

}  // namespace terngrad::python
