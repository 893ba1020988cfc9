#include "compress/exchange/codec_shards.h"

#include <algorithm>

#include "kernels/runtime/errors.h"

namespace terngrad {

std::vector<std::vector<Slice>> shards_by_codec(const Layout& layout, const CodecPlan& plan, int num_shards) {
  TERNGRAD_REQUIRE(num_shards >= 1, "[shards_by_codec] num_shards must be at least 1, got ", num_shards);
  std::vector<std::vector<Slice>> result(static_cast<std::size_t>(num_shards));
  for (const CodecPlan::Group& group : plan.groups()) {
    const std::vector<std::vector<Slice>> of_codec = shards(layout.select(group.segments), num_shards);
    for (std::size_t shard = 0; shard < result.size(); ++shard) {
      for (Slice slice : of_codec[shard]) {
        slice.segment = group.segments[static_cast<std::size_t>(slice.segment)];
        result[shard].push_back(slice);
      }
    }
  }
  for (std::vector<Slice>& slices : result) std::ranges::sort(slices, {}, &Slice::segment);
  return result;
}

}  // namespace terngrad
