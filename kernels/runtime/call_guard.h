// CallGuard: refuses concurrent calls of one object.
#pragma once

#include <atomic>

#include "kernels/runtime/errors.h"

namespace terngrad {

/// Marks an object as in use during its lifetime: one call at a time, from any thread.
/// @throws InvalidArgument if the object is in use
class CallGuard {
 public:
  explicit CallGuard(std::atomic<bool>& in_use) : in_use_(in_use) {
    TERNGRAD_REQUIRE(!in_use.exchange(true), "the object is in use: by another thread, or it is called by a callback");
  }
  ~CallGuard() { in_use_ = false; }
  CallGuard(const CallGuard&) = delete;
  CallGuard& operator=(const CallGuard&) = delete;

 private:
  std::atomic<bool>& in_use_;
};

}  // namespace terngrad
