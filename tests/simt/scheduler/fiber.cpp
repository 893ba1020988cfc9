#include "scheduler/fiber.h"

#include <sys/mman.h>

#include <cstdio>
#include <cstdlib>

#include "scheduler/sanitizers.h"

namespace simt {
namespace {

constexpr std::size_t kStackBytes = std::size_t{256} << 10;
// Guard pages below the stack, as large as the stack: an overflow ends the program by a signal.
constexpr std::size_t kGuardBytes = kStackBytes;
constexpr unsigned kNoOrder = 1;  // a switch does not synchronize the fibers

// The context that fibers yield to.
struct Scheduler {
  Context context;
  void* fake_stack = nullptr;
  void* thread_state = nullptr;
  const void* stack = nullptr;
  std::size_t stack_bytes = 0;
};
Scheduler scheduler;
Fiber* resumed = nullptr;

}  // namespace

Fiber::Fiber(void (*entry)(), std::size_t number) : entry_(entry) {
  void* memory = mmap(nullptr, kGuardBytes + kStackBytes, PROT_READ | PROT_WRITE,
                      MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
  if (memory == MAP_FAILED || mprotect(memory, kGuardBytes, PROT_NONE) != 0) {
    std::perror("simt: no memory for the stack of a thread");
    std::abort();
  }
  stack_ = static_cast<char*>(memory) + kGuardBytes;
  constexpr std::size_t kCacheLine = 64;
  constexpr std::size_t kSpread = 61;  // lines; more than the sets of a cache that a stack's first page falls into
  prepare(context_, stack_, kStackBytes - number % kSpread * kCacheLine, begin);
  if (__tsan_create_fiber != nullptr) thread_state_ = __tsan_create_fiber(0);
}

void Fiber::begin() {
  if (__sanitizer_finish_switch_fiber != nullptr) {
    __sanitizer_finish_switch_fiber(nullptr, &scheduler.stack, &scheduler.stack_bytes);
  }
  resumed->entry_();
}

void Fiber::resume() {
  resumed = this;
  if (__sanitizer_start_switch_fiber != nullptr) {
    __sanitizer_start_switch_fiber(&scheduler.fake_stack, stack_, kStackBytes);
  }
  if (__tsan_switch_to_fiber != nullptr) __tsan_switch_to_fiber(thread_state_, kNoOrder);
  jump(scheduler.context, context_);
  if (__sanitizer_finish_switch_fiber != nullptr) {
    __sanitizer_finish_switch_fiber(scheduler.fake_stack, nullptr, nullptr);
  }
}

void Fiber::yield() {
  if (__sanitizer_start_switch_fiber != nullptr) {
    __sanitizer_start_switch_fiber(&fake_stack_, scheduler.stack, scheduler.stack_bytes);
  }
  if (__tsan_switch_to_fiber != nullptr) __tsan_switch_to_fiber(scheduler.thread_state, kNoOrder);
  jump(context_, scheduler.context);
  // The OS thread, and so the scheduler's stack, may have changed.
  if (__sanitizer_finish_switch_fiber != nullptr) {
    __sanitizer_finish_switch_fiber(fake_stack_, &scheduler.stack, &scheduler.stack_bytes);
  }
}

void Fiber::be_scheduler() {
  if (__tsan_get_current_fiber != nullptr) scheduler.thread_state = __tsan_get_current_fiber();
}

}  // namespace simt
