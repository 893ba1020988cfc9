// The heap of this process, for tests of what is said to be allocated.
#pragma once

#include <malloc.h>

#include <cstdint>
#include <optional>

#include "support/sanitized.h"

namespace terngrad::testing {

/// Bytes that are allocated now, by all threads; nothing where the C library or a sanitizer does not say.
inline std::optional<std::int64_t> heap_bytes() {
#if defined(__GLIBC__) && __GLIBC_PREREQ(2, 33)
  if (kIsSanitized) return std::nullopt;
  const struct mallinfo2 heap = ::mallinfo2();
  return static_cast<std::int64_t>(heap.uordblks + heap.hblkhd);
#else
  return std::nullopt;
#endif
}

}  // namespace terngrad::testing
