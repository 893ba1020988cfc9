// What the sanitizers want to know of fibers. Their functions are there only in programs linked with them.
#pragma once

#include <cstddef>

extern "C" {
[[gnu::weak]] void __sanitizer_start_switch_fiber(void** fake_stack, const void* bottom, std::size_t size);
[[gnu::weak]] void __sanitizer_finish_switch_fiber(void* fake_stack, const void** bottom, std::size_t* size);
[[gnu::weak]] void __sanitizer_set_death_callback(void (*callback)());
[[gnu::weak]] void* __tsan_get_current_fiber();
[[gnu::weak]] void* __tsan_create_fiber(unsigned flags);
[[gnu::weak]] void __tsan_switch_to_fiber(void* fiber, unsigned flags);
[[gnu::weak]] void __tsan_acquire(void* token);
[[gnu::weak]] void __tsan_release(void* token);
}

namespace simt::sanitizer {

/// The thread sanitizer watches.
inline bool watches_threads() { return __tsan_create_fiber != nullptr; }

/// What threads did before `release` of a token happens before what they do after `acquire` of it. Nothing else orders
/// fibers: to the thread sanitizer they are concurrent, although they share an OS thread.
inline void release(void* token) {
  if (__tsan_release != nullptr) __tsan_release(token);
}
inline void acquire(void* token) {
  if (__tsan_acquire != nullptr) __tsan_acquire(token);
}

/// Has `callback` called when a sanitizer ends the program.
inline void on_death(void (*callback)()) {
  if (__sanitizer_set_death_callback != nullptr) __sanitizer_set_death_callback(callback);
}

}  // namespace simt::sanitizer
