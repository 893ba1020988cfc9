// How much work tests do: sanitizers make code many times slower, so counts shrink there, and only there.
#pragma once

#include <cstdint>

namespace terngrad::testing {

#if defined(__SANITIZE_ADDRESS__) || defined(__SANITIZE_THREAD__)
inline constexpr bool kSanitized = true;
#else
inline constexpr bool kSanitized = false;
#endif

/// `full`, or `reduced` in a sanitizer build.
template <class T>
constexpr T scaled(T full, T reduced) {
  return kSanitized ? reduced : full;
}

/// Step of loops over every length: 1, or a prime that still meets every remainder of 16 and 64 in a sanitizer build.
inline constexpr std::int64_t kLengthStep = scaled<std::int64_t>(1, 37);

}  // namespace terngrad::testing
