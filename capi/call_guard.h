// CallGuard: rejects concurrent calls on one handle.
#pragma once

#include <atomic>

#include "kernels/runtime/errors.h"

namespace terngrad::capi {

/// Marks a handle as in use during its lifetime. @throws InvalidArgument if the handle is in use
class CallGuard {
 public:
  explicit CallGuard(std::atomic<bool>& in_use) : in_use_(in_use) {
    TERNGRAD_REQUIRE(!in_use.exchange(true), "the handle is in use: by another thread, or it is called by a callback");
  }
  ~CallGuard() { in_use_ = false; }
  CallGuard(const CallGuard&) = delete;
  CallGuard& operator=(const CallGuard&) = delete;

 private:
  std::atomic<bool>& in_use_;
};

}  // namespace terngrad::capi
