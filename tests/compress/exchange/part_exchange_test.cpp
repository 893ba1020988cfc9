#include "compress/exchange/part_exchange.h"

#include <gtest/gtest.h>

#include <memory>

#include "compress/exchange/compressed_all_reduce.h"
#include "compress/memory/factor_state.h"

namespace terngrad::part_exchange_test {
namespace {

TEST(PartExchange, OfTensorsOfLowRankHasTwoExchangesAndOfOthersOne) {
  Layout layout;
  layout.add("m", {40, 30});
  for (const char* spec : {"powersgd", "ternary"}) {
    CompressedAllReduceOptions options;
    options.codecs.codec = spec;
    const CodecPlan plan(layout, with_workers(options.codecs, 2));
    FactorState factors(layout, plan);
    const auto part =
        make_part_exchange(layout, plan, make_worker_group(2, make_self_communicator()), options, factors, {});
    EXPECT_EQ(part->exchanges().size(), plan.codec_of(0).low_rank() ? 2u : 1u) << spec;
  }
}

}  // namespace
}  // namespace terngrad::part_exchange_test
