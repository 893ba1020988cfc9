#include "compress/plan/low_rank_rounds.h"

#include <algorithm>
#include <utility>

namespace terngrad {

FactorSizes factor_sizes(const Segment& tensor, int rank) {
  return factor_sizes(tensor.num_elements, tensor.shape.back(), rank);
}

bool has_low_rank(const CodecPlan& plan) {
  return std::ranges::any_of(plan.groups(), [](const auto& group) { return group.codec->low_rank().has_value(); });
}

LowRankRounds low_rank_rounds(const Layout& layout, const CodecPlan& plan, int num_workers) {
  std::vector<int> segments;
  std::vector<std::vector<std::int64_t>> first_shapes;
  std::vector<std::vector<std::int64_t>> second_shapes;
  for (int index = 0; index < layout.num_segments(); ++index) {
    const Segment& segment = layout.segment(index);
    const auto form = plan.codec_of(index).low_rank();
    if (!form) {
      first_shapes.push_back(segment.shape);
      continue;
    }
    const FactorSizes sizes = factor_sizes(segment, form->rank);
    segments.push_back(index);
    first_shapes.push_back({sizes.rank, sizes.rows});
    second_shapes.push_back({sizes.rank, sizes.columns});
  }
  const Layout selected = layout.select(segments);
  Layout first = layout.reshaped(first_shapes);
  Layout second = selected.reshaped(second_shapes);
  CodecPlan first_plan = CodecPlan::with_factors(plan, first, num_workers);
  CodecPlan second_plan = CodecPlan::with_factors(CodecPlan(plan, selected, segments), second, num_workers);
  return {std::move(segments), std::move(first), std::move(second), std::move(first_plan), std::move(second_plan)};
}

}  // namespace terngrad
