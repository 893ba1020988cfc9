#include "compress/exchange/part_exchange.h"

#include <utility>

#include "compress/exchange/low_rank_round.h"
#include "compress/exchange/round.h"
#include "compress/plan/low_rank_rounds.h"

namespace terngrad {

std::unique_ptr<PartExchange> make_part_exchange(const Layout& layout, CodecPlan plan, const PartContext& context,
                                                 std::vector<int> numbers) {
  if (has_low_rank(plan)) return std::make_unique<LowRankRound>(layout, plan, context, std::move(numbers));
  return std::make_unique<Round>(layout, std::move(plan), context, std::move(numbers));
}

std::set<std::string> codecs_through_host(const PartExchange& part) {
  std::set<std::string> names;
  for (const Round* const round : part.rounds()) names.merge(round->codecs_through_host());
  return names;
}

}  // namespace terngrad
