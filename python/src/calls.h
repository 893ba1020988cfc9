// Calls of the library without the interpreter lock (GIL).
#pragma once

#include <nanobind/nanobind.h>

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

}  // namespace terngrad::python
