#include "compress/exchange/codec_shards.h"

#include <algorithm>

#include "kernels/runtime/errors.h"

namespace terngrad {

std::vector<std::vector<Slice>> shares_by_codec(const Layout& layout, const CodecPlan& plan, int num_shares) {
  TERNGRAD_REQUIRE(num_shares >= 1, "[shares_by_codec] num_shares must be at least 1, got ", num_shares);
  std::vector<std::vector<Slice>> result(static_cast<std::size_t>(num_shares));
  for (const CodecPlan::Group& group : plan.groups()) {
    const std::vector<std::vector<Slice>> of_codec = shares(layout.select(group.segments), num_shares);
    for (std::size_t share = 0; share < result.size(); ++share) {
      for (Slice slice : of_codec[share]) {
        slice.segment = group.segments[static_cast<std::size_t>(slice.segment)];
        result[share].push_back(slice);
      }
    }
  }
  for (std::vector<Slice>& slices : result) std::ranges::sort(slices, {}, &Slice::segment);
  return result;
}

}  // namespace terngrad
