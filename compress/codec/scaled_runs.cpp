#include "compress/codec/scaled_runs.h"

#include <algorithm>

#include "kernels/codes/ternarize.h"
#include "kernels/runtime/errors.h"

namespace terngrad {

std::vector<Slice> statistics_slices(const Layout& layout, const std::vector<int>& segments,
                                     std::int64_t block_elements) {
  std::vector<Slice> slices;
  for (const int index : segments) {
    const std::int64_t n = layout.segment(index).num_elements;
    const std::int64_t step = block_elements == 0 ? std::max<std::int64_t>(n, 1) : block_elements;
    for (std::int64_t first = 0; first < n; first += step) slices.push_back({index, first, std::min(step, n - first)});
  }
  return slices;
}

void require_block_elements(std::int64_t block_elements, const char* codec) {
  TERNGRAD_REQUIRE(
      block_elements >= 0 && block_elements <= kMaxBlockElements && block_elements % kMinBlockElements == 0, "[", codec,
      "] block must be 0 or a positive multiple of ", kMinBlockElements, ", got ", block_elements);
}

std::int64_t num_block_scalers(std::int64_t num_elements, std::int64_t block_elements) {
  return num_blocks(0, num_elements, block_elements);
}

Codec::ScalerRange block_scaler_range(const Slice& slice, std::int64_t block_elements) {
  return {block_elements == 0 ? 0 : slice.first / block_elements, num_blocks(slice.first, slice.count, block_elements)};
}

}  // namespace terngrad
