// FlatRange: the part of a flat buffer that holds some tensors of a layout.
#pragma once

#include <cstdint>
#include <span>
#include <vector>

#include "kernels/tensor/layout.h"

namespace terngrad {

/// Elements [first, first + count) of a flat buffer: tensors with padding, so both are multiples of kFlatAlignment.
struct FlatRange {
  std::int64_t first = 0;
  std::int64_t count = 0;
  friend bool operator==(const FlatRange&, const FlatRange&) = default;
};

/// The whole flat buffer.
FlatRange whole_range(const Layout& layout);
/// The range of one tensor.
FlatRange range_of(const Segment& segment);
/// The smallest number of ranges that hold exactly these tensors.
/// @param segments  ascending
std::vector<FlatRange> ranges_of(const Layout& layout, std::span<const int> segments);

}  // namespace terngrad
