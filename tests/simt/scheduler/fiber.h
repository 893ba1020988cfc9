// Fibers: functions that suspend and resume, all in one OS thread at a time.
#pragma once

#include <cstddef>

#include "scheduler/context.h"

namespace simt {

/// A fiber with its own stack, never freed: fibers are reused for all blocks.
class Fiber {
 public:
  /// `entry` starts at the first resume() and must not return. `number` spreads stacks over the cache sets.
  Fiber(void (*entry)(), std::size_t number);
  Fiber(const Fiber&) = delete;
  Fiber& operator=(const Fiber&) = delete;

  /// Runs the fiber until it yields. Only for OS threads that have called be_scheduler().
  void resume();
  /// Returns to the scheduler; called by the running fiber.
  void yield();
  /// Makes the calling OS thread the scheduler.
  static void be_scheduler();

 private:
  static void begin();
  Context context_;
  char* stack_;
  void (*entry_)();
  void* fake_stack_ = nullptr;    // address sanitizer's state
  void* thread_state_ = nullptr;  // thread sanitizer's state
};

}  // namespace simt
