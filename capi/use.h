// Use: one call at a time.
#pragma once

#include <atomic>

#include "kernels/runtime/errors.h"

namespace terngrad::capi {

/// Marks a handle as in use as long as it lives. @throws InvalidArgument if it is
class Use {
 public:
  explicit Use(std::atomic<bool>& in_use) : in_use_(in_use) {
    TERNGRAD_REQUIRE(!in_use.exchange(true), "the handle is in use: by another thread, or it is called by a callback");
  }
  ~Use() { in_use_ = false; }
  Use(const Use&) = delete;
  Use& operator=(const Use&) = delete;

 private:
  std::atomic<bool>& in_use_;
};

}  // namespace terngrad::capi
