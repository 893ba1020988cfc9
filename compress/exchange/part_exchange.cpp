#include "compress/exchange/part_exchange.h"

#include <utility>

#include "compress/exchange/compressed_all_reduce.h"
#include "compress/exchange/low_rank_all_reduce.h"
#include "compress/plan/low_rank_rounds.h"

namespace terngrad {

std::unique_ptr<PartExchange> make_part_exchange(const Layout& layout, CodecPlan plan, const WorkerGroup& workers,
                                                 const CompressedAllReduceOptions& options, FactorState& factors,
                                                 std::vector<int> numbers) {
  if (has_low_rank(plan)) {
    return std::make_unique<LowRankAllReduce>(layout, plan, workers, options, factors, std::move(numbers));
  }
  return std::make_unique<CompressedAllReduce>(layout, std::move(plan), workers, options, std::move(numbers));
}

}  // namespace terngrad
