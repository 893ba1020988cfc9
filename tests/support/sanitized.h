// Which sanitizer a test was built with, and how much work tests do then: sanitizers make code many times slower. What
// one sees, it sees at a small size too, and the full size runs in the builds without one.
#pragma once

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <initializer_list>
#include <vector>

namespace terngrad::testing {

#if defined(__SANITIZE_ADDRESS__)
inline constexpr bool kIsAddressSanitized = true;
#else
inline constexpr bool kIsAddressSanitized = false;
#endif

#if defined(__SANITIZE_THREAD__)
inline constexpr bool kIsThreadSanitized = true;
#else
inline constexpr bool kIsThreadSanitized = false;
#endif

inline constexpr bool kIsSanitized = kIsAddressSanitized || kIsThreadSanitized;

/// `full`, or `reduced` in a sanitizer build.
template <class T>
constexpr T scaled(T full, T reduced) {
  return kIsSanitized ? reduced : full;
}

/// What a test loops over: all values, or under the thread sanitizer, the slowest, to which most of them look alike,
/// the first two.
template <class T>
std::vector<T> few(std::initializer_list<T> values) {
  const auto count = kIsThreadSanitized ? std::min<std::size_t>(values.size(), 2) : values.size();
  return {values.begin(), values.begin() + count};
}

/// Step of loops over every length: 1, or a prime that still meets every remainder of 16 and 64 in a sanitizer build.
inline constexpr std::int64_t kLengthStep = scaled<std::int64_t>(1, 37);

}  // namespace terngrad::testing
