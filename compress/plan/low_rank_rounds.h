// LowRankRounds: layouts and plans of the two exchanges for low-rank tensors.
#pragma once

#include <vector>

#include "compress/plan/codec_plan.h"
#include "kernels/factors/low_rank.h"
#include "kernels/tensor/layout.h"

namespace terngrad {

/// Factor sizes of a tensor with at least two dimensions, seen as a matrix. @param rank  LowRankForm::rank
FactorSizes factor_sizes(const Segment& tensor, int rank);

/// True if the plan has a low-rank tensor (Codec::low_rank).
bool has_low_rank(const CodecPlan& plan);

/// Layouts and plans of the two rounds, with the names and positions of the gradient's tensors. First round:
/// P^T [r', n], of type LowRankForm::factors, in place of each low-rank tensor, and all other tensors with their
/// codecs. Second round: Q^T [r', m] of the low-rank tensors.
struct LowRankRounds {
  std::vector<int> segments = {};  // low-rank tensors
  Layout first, second;
  CodecPlan first_plan, second_plan;
};
/// @param plan  of the layout's tensors, made for num_workers workers
LowRankRounds low_rank_rounds(const Layout& layout, const CodecPlan& plan, int num_workers);

}  // namespace terngrad
