// Sanitizer of the build, and reduced test sizes under sanitizers, which slow code down many times. Builds without a
// sanitizer run the full sizes.
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

/// All `values`; under the thread sanitizer, the slowest, only the first two.
template <class T>
std::vector<T> few(std::initializer_list<T> values) {
  const auto count = kIsThreadSanitized ? std::min<std::size_t>(values.size(), 2) : values.size();
  return {values.begin(), values.begin() + count};
}

/// Step of loops over lengths: 1; in a sanitizer build a prime, which still covers all remainders of 16 and 64.
inline constexpr std::int64_t kLengthStep = scaled<std::int64_t>(1, 37);

}  // namespace terngrad::testing
