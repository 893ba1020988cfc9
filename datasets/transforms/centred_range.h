// Centre crop and centre pad along one axis.
#pragma once

#include <algorithm>

namespace terngrad {

/// How `from` source positions map to `to` target positions when both are centred: `count` positions starting at
/// `source` and `target`. An odd rest is cut off, or padded, at the end.
struct CentredRange {
  CentredRange(int from, int to)
      : source(std::max(0, (from - to) / 2)), target(std::max(0, (to - from) / 2)), count(std::min(from, to)) {}
  int source;
  int target;
  int count;
};

}  // namespace terngrad
