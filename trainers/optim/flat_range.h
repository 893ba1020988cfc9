// FlatRange: the part of a flat buffer that holds some tensors of a layout.
#pragma once

#include <cstdint>
#include <span>
#include <vector>

#include "kernels/tensor/layout.h"

namespace terngrad {

/// Elements [first, first + count) of a flat buffer: whole tensors, each with the padding behind it, so that both are
/// multiples of kFlatAlignment.
struct FlatRange {
  std::int64_t first = 0;
  std::int64_t count = 0;
  friend bool operator==(const FlatRange&, const FlatRange&) = default;
};

/// All of a flat buffer.
FlatRange whole_range(const Layout& layout);
/// Of one tensor.
FlatRange range_of(const Segment& segment);
/// The ranges that hold these tensors and no others, as few as there can be.
/// @param segments  in order
std::vector<FlatRange> ranges_of(const Layout& layout, std::span<const int> segments);

}  // namespace terngrad
