// Fibers: functions that stop in the middle and are continued later, all in one OS thread at a time.
#pragma once

#include <cstddef>

#include "scheduler/context.h"

namespace simt {

/// A fiber with its own stack, which lives as long as the program: fibers serve block after block.
class Fiber {
 public:
  /// `entry` runs at the first resume() and must not return. `number` spreads stacks over the sets of the cache.
  Fiber(void (*entry)(), std::size_t number);
  Fiber(const Fiber&) = delete;
  Fiber& operator=(const Fiber&) = delete;

  /// Continues with the fiber until it yields. For the scheduler, which every OS thread is that has called
  /// be_scheduler().
  void resume();
  /// Goes back to the scheduler. For the fiber that runs.
  void yield();
  /// The calling OS thread is who fibers yield to from now on.
  static void be_scheduler();

 private:
  static void begin();
  Context context_;
  char* stack_;
  void (*entry_)();
  void* fake_stack_ = nullptr;    // the address sanitizer's
  void* thread_state_ = nullptr;  // the thread sanitizer's
};

}  // namespace simt
