// Which sanitizer a test was built with, for tests whose sizes are a matter of time there: what a sanitizer sees, it
// sees at a small size too, and the full size runs in the builds without one.
#pragma once

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

}  // namespace terngrad::testing
