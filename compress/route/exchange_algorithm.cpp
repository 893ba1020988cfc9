#include "compress/route/exchange_algorithm.h"

#include <algorithm>
#include <vector>

#include "compress/plan/combinations.h"
#include "compress/route/route.h"
#include "kernels/runtime/errors.h"

namespace terngrad {
namespace {

bool has_summable(const CodecPlan& plan) {
  return std::ranges::any_of(plan.groups(), [](const CodecPlan::Group& g) { return g.codec->traits().summable; });
}

}  // namespace

ExchangeAlgorithm choose_algorithm(ExchangeAlgorithm asked, ShardOwners owners, DownlinkCodec downlink_codec,
                                   const Layout& layout, const CodecPlan& plan, int num_workers) {
  const bool has_servers = owners == ShardOwners::kServers;
  require_combination(plan, {.algorithm = asked, .has_servers = has_servers});
  if (has_servers) return ExchangeAlgorithm::kScatterReduce;
  if (asked != ExchangeAlgorithm::kAuto) return asked;
  if (downlink_codec == DownlinkCodec::kSums) return ExchangeAlgorithm::kScatterReduce;
  if (num_workers == 1) return ExchangeAlgorithm::kAllGather;
  std::vector<ExchangeAlgorithm> candidates = {ExchangeAlgorithm::kAllGather, ExchangeAlgorithm::kScatterReduce};
  if (has_summable(plan)) candidates.push_back(ExchangeAlgorithm::kIntegerSum);
  // On a tie the first, which has the fewest rounds of messages.
  return *std::ranges::min_element(candidates, {}, [&](ExchangeAlgorithm algorithm) {
    return busiest_worker_bytes(algorithm, downlink_codec, layout, plan, num_workers);
  });
}

ExchangeAlgorithm algorithm_of_part(ExchangeAlgorithm asked, const CodecPlan& whole, const CodecPlan& part) {
  const bool by_sums = asked == ExchangeAlgorithm::kIntegerSum && has_summable(whole);
  return by_sums && !has_summable(part) ? ExchangeAlgorithm::kAllGather : asked;
}

}  // namespace terngrad
