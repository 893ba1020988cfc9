// LowRankRounds: the two exchanges that tensors of low rank take.
#pragma once

#include <vector>

#include "compress/plan/codec_plan.h"
#include "kernels/factors/low_rank.h"
#include "kernels/tensor/layout.h"

namespace terngrad {

/// Of a tensor of two dimensions at least, as a matrix. @param rank  LowRankForm::rank
FactorSizes factor_sizes(const Segment& tensor, int rank);

/// Whether a tensor of the plan is of low rank (Codec::low_rank).
bool has_low_rank(const CodecPlan& plan);

/// What the rounds exchange, by tensors of the names and at the places that gradients have: first P^T [r', n] as
/// LowRankForm::factors in place of each tensor of low rank, beside all others with their codecs; then Q^T [r', m] so.
struct LowRankRounds {
  std::vector<int> segments = {};  // of low rank
  Layout first, second;
  CodecPlan first_plan, second_plan;
};
/// @param plan  of the layout's tensors, for a run of that many workers
LowRankRounds low_rank_rounds(const Layout& layout, const CodecPlan& plan, int num_workers);

}  // namespace terngrad
