#include "trainers/optim/flat_range.h"

namespace terngrad {

FlatRange whole_range(const Layout& layout) { return {0, layout.flat_elements()}; }

FlatRange range_of(const Segment& segment) {
  return {segment.offset, (segment.num_elements + kFlatAlignment - 1) / kFlatAlignment * kFlatAlignment};
}

std::vector<FlatRange> ranges_of(const Layout& layout, std::span<const int> segments) {
  std::vector<FlatRange> ranges;
  for (const int index : segments) {
    const FlatRange range = range_of(layout.segment(index));
    if (range.count == 0) continue;
    if (!ranges.empty() && ranges.back().first + ranges.back().count == range.first) {
      ranges.back().count += range.count;
    } else {
      ranges.push_back(range);
    }
  }
  return ranges;
}

}  // namespace terngrad
