// Layout and context for fuzzed messages.
#pragma once

#include "compress/wire/wire_format.h"
#include "kernels/tensor/layout.h"

namespace terngrad::fuzz {

inline const Layout& message_layout() {
  static const Layout layout = [] {
    Layout made;
    made.add("w", {100, 100});
    made.add("empty", {0});
    made.add("b", {3});
    return made;
  }();
  return layout;
}

inline constexpr MessageContext kMessageContext{.run_id = 1, .fingerprint = 2, .step = 3};

}  // namespace terngrad::fuzz
