// Atomics, fences, and loads and stores with cache hints, which are ignored.
#pragma once

#include <concepts>
#include <cstdint>
#include <cstring>
#include <type_traits>

#include "simt/bits.h"

namespace simt {

/// *at = update(*at), atomically. @returns the value before
template <class T, class Update>
T atomic_update(T* at, Update update) {
  // A real atomic operation, in one place: the thread sanitizer must see that these do not race.
  using Word = std::conditional_t<sizeof(T) == 8, std::uint64_t, std::uint32_t>;
  static_assert(sizeof(T) == sizeof(Word), "atomics are of 4 or 8 bytes");
  auto* word = reinterpret_cast<Word*>(at);
  Word before = __atomic_load_n(word, __ATOMIC_ACQUIRE);
  Word after;
  do {
    after = static_cast<Word>(to_bits(static_cast<T>(update(from_bits<T>(before)))));
  } while (!__atomic_compare_exchange_n(word, &before, after, false, __ATOMIC_ACQ_REL, __ATOMIC_ACQUIRE));
  return from_bits<T>(before);
}

/// Integer sums wrap around.
template <class T>
T wrapping_sum(T a, T b) {
  if constexpr (std::integral<T>) {
    using Unsigned = std::make_unsigned_t<T>;
    return static_cast<T>(static_cast<Unsigned>(a) + static_cast<Unsigned>(b));
  } else {
    return a + b;
  }
}

template <std::integral T>
T wrapping_difference(T a, T b) {
  using Unsigned = std::make_unsigned_t<T>;
  return static_cast<T>(static_cast<Unsigned>(a) - static_cast<Unsigned>(b));
}

}  // namespace simt

template <class T>
T atomicAdd(T* at, std::type_identity_t<T> value) {
  return simt::atomic_update(at, [value](T old) { return simt::wrapping_sum(old, value); });
}
template <std::integral T>
T atomicSub(T* at, std::type_identity_t<T> value) {
  return simt::atomic_update(at, [value](T old) { return simt::wrapping_difference(old, value); });
}
template <class T>
T atomicExch(T* at, std::type_identity_t<T> value) {
  return simt::atomic_update(at, [value](T) { return value; });
}
template <std::integral T>
T atomicCAS(T* at, std::type_identity_t<T> expected, std::type_identity_t<T> value) {
  return simt::atomic_update(at, [expected, value](T old) { return old == expected ? value : old; });
}

#define SIMT_ATOMIC(name, result)                                      \
  template <std::integral T>                                           \
  T name(T* at, std::type_identity_t<T> value) {                       \
    return simt::atomic_update(at, [value](T old) { return result; }); \
  }
SIMT_ATOMIC(atomicMax, old < value ? value : old)
SIMT_ATOMIC(atomicMin, value < old ? value : old)
SIMT_ATOMIC(atomicAnd, old& value)
SIMT_ATOMIC(atomicOr, old | value)
SIMT_ATOMIC(atomicXor, old ^ value)
SIMT_ATOMIC(atomicInc, old >= value ? T{0} : old + 1)
#undef SIMT_ATOMIC

// Atomics order memory in the emulation, so fences do nothing, and missing fences are not detected.
inline void __threadfence() {}
inline void __threadfence_block() {}

#define SIMT_LOAD(name) \
  template <class T>    \
  T name(const T* at) { \
    return *at;         \
  }
SIMT_LOAD(__ldg)
SIMT_LOAD(__ldca)
SIMT_LOAD(__ldcg)
SIMT_LOAD(__ldcs)
#undef SIMT_LOAD

#define SIMT_STORE(name)                            \
  template <class T>                                \
  void name(T* at, std::type_identity_t<T> value) { \
    *at = value;                                    \
  }
SIMT_STORE(__stwb)
SIMT_STORE(__stcg)
SIMT_STORE(__stcs)
#undef SIMT_STORE
