#include "compress/route/codec_shards.h"

#include <algorithm>

#include "kernels/runtime/errors.h"

namespace terngrad {
namespace {

/// Shards of tensors whose codec allows cuts only at multiples of `grain`. Units of `grain` elements, or whole tensors,
/// go to the shard in whose part of all elements their first element lies.
std::vector<std::vector<Slice>> shards_of_grains(const Layout& layout, std::int64_t grain, int num_shards) {
  std::vector<std::vector<Slice>> result(static_cast<std::size_t>(num_shards));
  std::int64_t num_elements = 0;
  for (const Segment& segment : layout.segments()) num_elements += segment.num_elements;
  std::int64_t before = 0;
  for (int index = 0; index < layout.num_segments(); ++index) {
    const std::int64_t n = layout.segment(index).num_elements;
    for (std::int64_t first = 0; first < n;) {
      const std::int64_t count = std::min(grain, n - first);
      // In float64, where products of large numbers do not overflow; exact while the product is at most 2^53.
      const double share = static_cast<double>(before) * num_shards / static_cast<double>(num_elements);
      std::vector<Slice>& shard = result[static_cast<std::size_t>(share)];
      if (!shard.empty() && shard.back().segment == index) {
        shard.back().count += count;
      } else {
        shard.push_back({index, first, count});
      }
      first += count;
      before += count;
    }
  }
  return result;
}

}  // namespace

std::vector<std::vector<Slice>> shards_by_codec(const Layout& layout, const CodecPlan& plan, int num_shards) {
  TERNGRAD_REQUIRE(num_shards >= 1, "[shards_by_codec] num_shards must be at least 1, got ", num_shards);
  std::vector<std::vector<Slice>> result(static_cast<std::size_t>(num_shards));
  for (const CodecPlan::Group& group : plan.groups()) {
    const Layout of_group = layout.select(group.segments);
    const std::int64_t grain = group.codec->traits().grain_elements;
    const std::vector<std::vector<Slice>> of_codec =
        grain == kChunkElements ? shards(of_group, num_shards) : shards_of_grains(of_group, grain, num_shards);
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
