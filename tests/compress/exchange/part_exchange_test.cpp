#include "compress/exchange/part_exchange.h"

#include <gtest/gtest.h>

#include <memory>

#include "compress/exchange/all_reduce_options.h"
#include "compress/exchange/nonfinite.h"
#include "compress/memory/shared_state.h"
#include "compress/transport/exchange_peers.h"

namespace terngrad::part_exchange_test {
namespace {

TEST(PartExchange, OfTensorsOfLowRankHasTwoRoundsAndOfOthersOne) {
  Layout layout;
  layout.add("m", {40, 30});
  const ExchangePeers in_messages(make_worker_group(2, make_self_communicator()));
  const ExchangePeers in_places(worker_range(2, 0, 1), make_self_device_communicator());
  for (const char* spec : {"powersgd", "ternary"}) {
    for (const ExchangePeers& peers : {in_messages, in_places}) {
      CompressedAllReduceOptions options;
      options.codecs.codec = spec;
      const CodecPlan plan(layout, with_workers(options.codecs, 2));
      const Stream stream;
      NonfiniteFlags flags(options.on_nonfinite, stream);
      SharedState shared(layout, plan, MemoryKind::kNone);
      const auto part = make_part_exchange(layout, plan, {peers, options, stream, flags, shared}, {});
      EXPECT_EQ(part->rounds().size(), plan.codec_of(0).low_rank() ? 2u : 1u) << spec;
      if (peers.device != nullptr) continue;
      options.vendor_type = ElementType::kBfloat16;
      EXPECT_TRUE(make_part_exchange(layout, plan, {peers, options, stream, flags, shared}, {})->rounds().empty());
    }
  }
}

}  // namespace
}  // namespace terngrad::part_exchange_test
