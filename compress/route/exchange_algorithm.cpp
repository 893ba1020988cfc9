#include "compress/route/exchange_algorithm.h"

#include <algorithm>
#include <vector>

#include "compress/route/route.h"
#include "kernels/runtime/errors.h"

namespace terngrad {
namespace {

bool has_summable(const CodecPlan& plan) {
  return std::ranges::any_of(plan.groups(), [](const CodecPlan::Group& g) { return g.codec->traits().summable; });
}

}  // namespace

std::string to_string(ExchangeAlgorithm algorithm) {
  switch (algorithm) {
    case ExchangeAlgorithm::kAllGather:
      return "all_gather";
    case ExchangeAlgorithm::kScatterReduce:
      return "scatter_reduce";
    case ExchangeAlgorithm::kIntegerSum:
      return "integer_sum";
    case ExchangeAlgorithm::kAuto:
      return "auto";
  }
  TERNGRAD_THROW(InvalidArgument, "[exchange] unknown algorithm ", static_cast<int>(algorithm));
}

ExchangeAlgorithm choose_algorithm(ExchangeAlgorithm asked, ShardOwners owners, DownlinkCodec downlink_codec,
                                   const Layout& layout, const CodecPlan& plan, int num_workers) {
  if (owners == ShardOwners::kServers) {
    TERNGRAD_REQUIRE(asked == ExchangeAlgorithm::kAuto || asked == ExchangeAlgorithm::kScatterReduce,
                     "[exchange] servers aggregate by scatter_reduce, not by ", to_string(asked));
    return ExchangeAlgorithm::kScatterReduce;
  }
  if (asked == ExchangeAlgorithm::kIntegerSum) {
    TERNGRAD_REQUIRE(has_summable(plan),
                     "[exchange] integer_sum needs a codec whose codes add up as integers for at least one tensor: "
                     "ternary with sharing max or mean, or qsgd with sharing=max");
  }
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
