// Annotations of fibers for the sanitizers. The functions exist only in programs linked with a sanitizer.
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

/// True if the program runs under the thread sanitizer.
inline bool watches_threads() { return __tsan_create_fiber != nullptr; }

/// Work before `release` of a token happens before work after `acquire` of it. Nothing else orders fibers: to the
/// thread sanitizer they are concurrent, although they share an OS thread.
inline void release(void* token) {
  if (__tsan_release != nullptr) __tsan_release(token);
}
inline void acquire(void* token) {
  if (__tsan_acquire != nullptr) __tsan_acquire(token);
}

/// Registers a function that is called when a sanitizer ends the program.
inline void on_death(void (*callback)()) {
  if (__sanitizer_set_death_callback != nullptr) __sanitizer_set_death_callback(callback);
}

}  // namespace simt::sanitizer
