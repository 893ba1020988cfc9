// Centred crop and padding along one axis.
#pragma once

#include <algorithm>

namespace terngrad {

/// Maps `from` centred source positions to `to` target positions: `count` positions starting at `source` and `target`.
/// The odd one of an odd difference is cropped, or padded, at the end.
struct CentredRange {
  CentredRange(int from, int to)
      : source(std::max(0, (from - to) / 2)), target(std::max(0, (to - from) / 2)), count(std::min(from, to)) {}
  int source;
  int target;
  int count;
};

}  // namespace terngrad
