// Calls of the library that run without the interpreter's lock.
#pragma once

#include <nanobind/nanobind.h>

#include <atomic>

namespace terngrad::python {

/// Gives the interpreter's lock away for a call. Counts the calls under way: a thread that wants the lock back while
/// the interpreter ends is ended in the middle of C++ code, so the end waits for them (wait_for_calls).
class UnlockedCall {
 public:
  /// Once the interpreter ends, does not return except in the thread that ends it.
  UnlockedCall();
  ~UnlockedCall();
  UnlockedCall(const UnlockedCall&) = delete;
  UnlockedCall& operator=(const UnlockedCall&) = delete;

 private:
  PyThreadState* state_;
};

/// Lets no call begin, and waits for those under way, at most so long.
void wait_for_calls(double seconds);

/// Marks an object as in use as long as it lives. @throws InvalidArgument if it is: an exchange serves one call at a
/// time, from any thread
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
