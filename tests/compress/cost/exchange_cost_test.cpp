// Closed-form cases, small enough for computation by hand.
#include "compress/cost/exchange_cost.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <limits>
#include <vector>

#include "kernels/runtime/errors.h"

namespace terngrad::exchange_cost_test {
namespace {

using Pays = BreakEven::Pays;

ExchangeCost cost_of(double bytes, int rounds, double encode, double check, double decode) {
  return {.codec = "x",
          .wire = {bytes, rounds},
          .encode_seconds = encode,
          .check_seconds = check,
          .decode_seconds = decode};
}

TEST(ExchangeWorld, TheBusiestProcessHasTheMostWorkers) {
  EXPECT_EQ((ExchangeWorld{8, 8}).num_local_workers(), 1);
  EXPECT_EQ((ExchangeWorld{8, 3}).num_local_workers(), 3);
  EXPECT_EQ((ExchangeWorld{8, 1}).num_local_workers(), 8);
  for (int workers = 1; workers < 20; ++workers) {
    for (int processes = 1; processes <= workers; ++processes) {
      int most = 0;
      for (int rank = 0; rank < processes; ++rank) {
        most = std::max(most, worker_range(workers, rank, processes).num_local_workers);
      }
      EXPECT_EQ((ExchangeWorld{workers, processes}).num_local_workers(), most) << workers << " over " << processes;
    }
  }
}

MessageSizes equal_shards(std::int64_t num_workers) {
  const auto count = static_cast<std::size_t>(num_workers);
  return {.scalers = 100,
          .gradient = {4000, 0},
          .shards = std::vector<GradientSizes>(count, {4000 / num_workers, 0}),
          .downlink_payloads = std::vector<std::int64_t>(count, 6000 / num_workers)};
}

TEST(WireVolume, OneWorkerForEachProcess) {
  const WireVolume gathered = wire_volume(ExchangeAlgorithm::kAllGather, {4, 4}, equal_shards(4));
  EXPECT_EQ(gathered.bytes, 3 * 4100);
  EXPECT_EQ(gathered.rounds, 2);
  const WireVolume scattered = wire_volume(ExchangeAlgorithm::kScatterReduce, {4, 4}, equal_shards(4));
  EXPECT_EQ(scattered.bytes, 3 * 100 + 3 * 1000 + 3 * 1500);
  EXPECT_EQ(scattered.rounds, 3);
}

TEST(WireVolume, SeveralWorkersOfAProcess) {
  // Two processes with two workers: each sends both workers' messages to the other.
  EXPECT_EQ(wire_volume(ExchangeAlgorithm::kAllGather, {4, 2}, equal_shards(4)).bytes, 2 * 4100);
  // Half of each worker's shards, and half of the mean.
  EXPECT_EQ(wire_volume(ExchangeAlgorithm::kScatterReduce, {4, 2}, equal_shards(4)).bytes, 2 * 100 + 2 * 2000 + 3000);
}

TEST(WireVolume, TheBusiestProcessCounts) {
  // Three workers in two processes: the second has two, so it sends two messages and receives one.
  EXPECT_EQ(wire_volume(ExchangeAlgorithm::kAllGather, {3, 2}, equal_shards(3)).bytes, 2 * 4100);
  // The owner of the last, largest shard receives it from two workers and sends its mean to two.
  const MessageSizes sizes{.scalers = 100, .shards = {{10, 0}, {10, 0}, {500, 0}}, .downlink_payloads = {20, 20, 700}};
  EXPECT_EQ(wire_volume(ExchangeAlgorithm::kScatterReduce, {3, 3}, sizes).bytes, 2 * 100 + 2 * 500 + 2 * 700);
  // The maximum of each round: the owner of the small shard sends the large one, and receives its mean.
  const MessageSizes small{.scalers = 0, .shards = {{10, 0}, {500, 0}}, .downlink_payloads = {700, 20}};
  EXPECT_EQ(wire_volume(ExchangeAlgorithm::kScatterReduce, {2, 2}, small).bytes, 500 + 700);
}

TEST(WireVolume, SumsTravelOnceForEachSubtree) {
  // Two processes with two workers, each a subtree; a part of the gradient is not summed.
  MessageSizes sizes = equal_shards(4);
  sizes.gradient = {300, 4000};
  EXPECT_EQ(wire_volume(ExchangeAlgorithm::kAllGather, {4, 2}, sizes).bytes, 2 * 100 + 2 * 300 + 4000);
  sizes.shards.assign(4, {75, 1000});
  EXPECT_EQ(wire_volume(ExchangeAlgorithm::kScatterReduce, {4, 2}, sizes).bytes,
            2 * 100 + 2 * (2 * 75 + 1000) + 2 * 1500);
  // Three workers of six are two subtrees: 2 + 1, and 1 + 2.
  sizes.gradient = {0, 4000};
  EXPECT_EQ(wire_volume(ExchangeAlgorithm::kAllGather, {6, 2}, sizes).bytes, 3 * 100 + 2 * 4000);
  // Five workers: two in the first process are one subtree; three in the second are two subtrees.
  EXPECT_EQ(wire_volume(ExchangeAlgorithm::kAllGather, {5, 2}, sizes).bytes, 3 * 100 + 2 * 4000);
}

TEST(WireVolume, OfLanesIsAnAllReduce) {
  MessageSizes sizes{.scalers = 100, .lanes = 8000};
  const WireVolume all_lanes = wire_volume(ExchangeAlgorithm::kIntegerSum, {4, 4}, sizes);
  EXPECT_EQ(all_lanes.bytes, 3 * 100 + 2 * 3 * 2000);
  EXPECT_EQ(all_lanes.rounds, 3);
  // Tensors that cannot be summed are gathered. Processes first sum their workers' lanes.
  sizes.gradient = {40, 0};
  const WireVolume mixed = wire_volume(ExchangeAlgorithm::kIntegerSum, {4, 2}, sizes);
  EXPECT_EQ(mixed.bytes, 2 * 100 + 2 * 40 + 8000);
  EXPECT_EQ(mixed.rounds, 4);
}

TEST(WireVolume, OneProcessSendsNothing) {
  EXPECT_EQ(wire_volume(ExchangeAlgorithm::kAllGather, {4, 1}, equal_shards(4)).bytes, 0);
  EXPECT_EQ(wire_volume(ExchangeAlgorithm::kScatterReduce, {4, 1}, equal_shards(4)).bytes, 0);
}

TEST(WireVolume, RefusesWhatItDoesNotKnow) {
  EXPECT_THROW(wire_volume(ExchangeAlgorithm::kAuto, {2, 2}, equal_shards(2)), InvalidArgument);
  EXPECT_THROW(wire_volume(ExchangeAlgorithm::kAllGather, {2, 3}, {}), InvalidArgument);
  EXPECT_THROW(wire_volume(ExchangeAlgorithm::kAllGather, {2, 0}, {}), InvalidArgument);
  EXPECT_THROW(wire_volume(ExchangeAlgorithm::kScatterReduce, {2, 2}, equal_shards(4)), InvalidArgument);
}

TEST(ExchangeCost, IsProcessorLatencyAndBytes) {
  const ExchangeCost cost = cost_of(1000, 3, 0.5, 0.25, 0.125);
  EXPECT_EQ(cost.processor_seconds(), 0.875);
  const LinkModel link{.latency_seconds = 2, .bytes_per_second = 500};
  EXPECT_EQ(cost.link_seconds(link), 3 * 2 + 2);
  EXPECT_EQ(cost.seconds(link), 8.875);
  EXPECT_EQ(cost.seconds({2, std::numeric_limits<double>::infinity()}), 6.875);
}

TEST(ExchangeCost, LiesBetweenItsSamplesOnTheLinkWithinItsBounds) {
  const LinkModel link{0, 100};
  const LinkBounds bounds{.fast = {0, 200}, .slow = {0, 50}};
  ExchangeCost cost{.codec = "t2", .wire = {100, 0}, .encode_seconds = 5, .samples = {4, 5, 6, 5, 90}};
  // The spread of the five samples is 5 to 6; 100 bytes take 0.5 to 2 seconds.
  EXPECT_EQ(cost.spread(link, bounds), (Spread{5.5, 8}));
  // The vendor library's samples include the link.
  cost.exchange = kVendorExchange;
  cost.wire.bytes = 0;
  EXPECT_EQ(cost.spread(link, bounds), (Spread{5, 6}));
  cost.exchange = "all_gather";
  cost.workers_per_group = 2;  // so do those of groups
  EXPECT_EQ(cost.spread(link, bounds), (Spread{5, 6}));
  cost.samples = {5};
  EXPECT_EQ(cost.spread(link, bounds), std::nullopt);
}

TEST(BreakEven, LessBytesForMoreWorkPayBelowABandwidth) {
  const ExchangeCost fp32 = cost_of(1000, 2, 0.25, 0, 0.25);
  const ExchangeCost codec = cost_of(200, 2, 1.25, 0.5, 0.75);
  const BreakEven result = break_even(codec, fp32, 7);  // equal rounds: latency does not matter
  EXPECT_EQ(result, (BreakEven{Pays::kBelow, 400}));
  // Both take the same time there; one is faster below, the other above.
  for (const double latency : {0.0, 7.0}) {
    EXPECT_EQ(codec.seconds({latency, 400}), fp32.seconds({latency, 400}));
    EXPECT_LT(codec.seconds({latency, 399}), fp32.seconds({latency, 399}));
    EXPECT_GT(codec.seconds({latency, 401}), fp32.seconds({latency, 401}));
  }
}

TEST(BreakEven, ARoundMoreCostsALatency) {
  const ExchangeCost baseline = cost_of(1000, 2, 1, 0, 0);
  EXPECT_EQ(break_even(cost_of(600, 3, 1, 0, 0), baseline, 0.5), (BreakEven{Pays::kBelow, 800}));
  // One round less is worth the work.
  EXPECT_EQ(break_even(cost_of(600, 1, 1.25, 0, 0), baseline, 0.5), (BreakEven{Pays::kAlways, 0}));
}

TEST(BreakEven, MoreBytesForLessWorkPayAboveABandwidth) {
  const ExchangeCost baseline = cost_of(1000, 2, 2, 0, 0);
  const ExchangeCost codec = cost_of(1500, 2, 1, 0, 0);
  EXPECT_EQ(break_even(codec, baseline, 0), (BreakEven{Pays::kAbove, 500}));
  EXPECT_GT(codec.seconds({0, 499}), baseline.seconds({0, 499}));
  EXPECT_LT(codec.seconds({0, 501}), baseline.seconds({0, 501}));
}

TEST(BreakEven, AlwaysAndNever) {
  const ExchangeCost baseline = cost_of(1000, 2, 1, 0, 0);
  const BreakEven always{Pays::kAlways, 0};
  const BreakEven never{Pays::kNever, 0};
  EXPECT_EQ(break_even(cost_of(999, 2, 0.5, 0, 0), baseline, 0), always);
  EXPECT_EQ(break_even(cost_of(999, 2, 1, 0, 0), baseline, 0), always);
  EXPECT_EQ(break_even(cost_of(1000, 2, 0.5, 0, 0), baseline, 0), always);
  EXPECT_EQ(break_even(cost_of(1001, 2, 1.5, 0, 0), baseline, 0), never);
  EXPECT_EQ(break_even(cost_of(1001, 2, 1, 0, 0), baseline, 0), never);
  EXPECT_EQ(break_even(cost_of(1000, 2, 1.5, 0, 0), baseline, 0), never);
  // A codec never pays compared with itself.
  EXPECT_EQ(break_even(baseline, baseline, 0), never);
}

TEST(Recommend, TakesTheFastestOnThisLink) {
  const std::vector<ExchangeCost> costs = {cost_of(1000, 2, 0, 0, 0), cost_of(500, 2, 1, 0, 0),
                                           cost_of(100, 2, 3, 0, 0)};
  // 5 + 500 / B = 100 / B + 3 at B = 200; 1000 / B = 500 / B + 1 at B = 500.
  EXPECT_EQ(recommend(costs, 0, {0, 100}), 2u);
  EXPECT_EQ(recommend(costs, 0, {0, 250}), 1u);
  EXPECT_EQ(recommend(costs, 0, {0, 5000}), 0u);
}

TEST(Recommend, AGainTooSmallToTellIsNone) {
  const ExchangeCost fp32 = cost_of(1000, 2, 0, 0, 0);
  const std::vector<ExchangeCost> little = {fp32, cost_of(960, 2, 0, 0, 0)};
  EXPECT_EQ(recommend(little, 0, {0, 1}), 0u);
  const std::vector<ExchangeCost> enough = {fp32, cost_of(940, 2, 0, 0, 0)};
  EXPECT_EQ(recommend(enough, 0, {0, 1}), 1u);
  EXPECT_EQ(recommend(std::vector{fp32}, 0, {0, 1}), 0u);
  // With 300 s of other work per step, saving 60 s of 1000 is too little, saving 160 s is enough.
  EXPECT_EQ(recommend(enough, 0, {0, 1}, 300), 0u);
  const std::vector<ExchangeCost> more = {fp32, cost_of(840, 2, 0, 0, 0)};
  EXPECT_EQ(recommend(more, 0, {0, 1}, 300), 1u);
  EXPECT_THROW(recommend({}, 0, {0, 1}), InvalidArgument);
  EXPECT_THROW(recommend(little, 2, {0, 1}), InvalidArgument);
}

TEST(Recommend, TheBaselineMayStandAnywhere) {
  const std::vector<ExchangeCost> costs = {cost_of(1000, 2, 0, 0, 0), cost_of(780, 2, 0, 0, 0),
                                           cost_of(800, 2, 0, 0, 0)};
  EXPECT_EQ(recommend(costs, 2, {0, 1}), 2u);
  EXPECT_EQ(recommend(costs, 0, {0, 1}), 1u);
}

}  // namespace
}  // namespace terngrad::exchange_cost_test
