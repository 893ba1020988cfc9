// Closed-form cases: numbers small enough to be worked out by hand. paper_clusters_test.cpp has the bars of figure 5.
#include "compress/cost/cluster_model.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <cstdint>
#include <limits>
#include <string>
#include <utility>
#include <vector>

#include "compress/cost/paper_clusters.h"
#include "kernels/runtime/errors.h"

namespace terngrad::cluster_model_test {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;
using enum ClusterExchange;
using enum InputSource;

constexpr double kInfinity = std::numeric_limits<double>::infinity();
constexpr double kNan = std::numeric_limits<double>::quiet_NaN();

/// Four machines of two GPUs: 1000 bytes a second between GPUs, 500 to the network, 250 on it.
Cluster small_cluster() {
  return {.name = "small",
          .num_machines = 4,
          .gpus_per_machine = 2,
          .gpu = {{0.25, 1000}, kMeasured},
          .host = {{0, 500}, kGiven},
          .network = {{0.5, 250}, kAssumed},
          .measured_workers = 2};
}

/// 1000 elements, of which 200 are not coded, that take two seconds to compute.
ClusterNet small_net() {
  return {.name = "net",
          .buckets = {{.elements = 1000, .plain_elements = 200, .num_tensors = 0, .ready_fraction = 1}},
          .examples_per_worker = 10,
          .compute = {{0, 0.2}, kMeasured},
          .update = {{0, 0.001}, kGiven}};
}

CodecWork work_of(const std::string& codec) {
  return {.codec = codec, .encode = {{0.5, 0}, kMeasured}, .decode = {{0, 0.0005}, kMeasured}};
}

ClusterPlan plan_of(ClusterExchange exchange, const std::string& downlink, int num_servers = 1) {
  return {.exchange = exchange, .downlink = downlink, .num_servers = num_servers};
}
ClusterPlan two_levels(ClusterPlan plan) {
  plan.two_levels = true;
  return plan;
}

std::vector<std::string> names_of(const StepPrediction& prediction) {
  std::vector<std::string> names;
  for (const NamedInput& input : prediction.inputs) names.push_back(input.name + ": " + to_string(input.source));
  return names;
}

TEST(LineThrough, OnePointAndTwo) {
  const LinearTime one = line_through(std::vector<TimePoint>{{4, 2}});
  EXPECT_EQ(one.seconds(0), 0);
  EXPECT_EQ(one.seconds(6), 3);
  const LinearTime two = line_through(std::vector<TimePoint>{{4, 2}, {8, 3}});
  EXPECT_EQ(two.seconds(0), 1);
  EXPECT_EQ(two.seconds(6), 2.5);
  // A line that is steeper than from the origin takes no less than no time.
  const LinearTime steep = line_through(std::vector<TimePoint>{{4, 1}, {8, 5}});
  EXPECT_EQ(steep.seconds(1), 0);
  EXPECT_EQ(steep.seconds(6), 3);
}

TEST(LineThrough, RefusesOthers) {
  using Points = std::vector<TimePoint>;
  for (const Points& points :
       {Points{}, Points{{1, 1}, {2, 2}, {3, 3}}, Points{{0, 1}}, Points{{1, -1}}, Points{{2, 1}, {2, 2}},
        Points{{1, 2}, {2, 1}}, Points{{1, kNan}}, Points{{kInfinity, 1}}}) {
    EXPECT_THROW(line_through(points), InvalidArgument);
  }
}

TEST(ExpectedMaxOfNormals, IsKnownForFew) {
  EXPECT_NEAR(expected_max_of_normals(1), 0, 1e-9);
  EXPECT_NEAR(expected_max_of_normals(2), 1 / std::sqrt(std::acos(-1.0)), 1e-9);
  EXPECT_NEAR(expected_max_of_normals(3), 1.5 / std::sqrt(std::acos(-1.0)), 1e-9);
  EXPECT_NEAR(expected_max_of_normals(4), 1.0293753730, 1e-9);
  EXPECT_NEAR(expected_max_of_normals(5), 1.1629644736, 1e-9);
}

TEST(ExpectedMaxOfNormals, GrowsSlowly) {
  // By the trapezoidal rule on the other form of the integral, of x N f(x) F(x)^(N - 1) over all x.
  const std::vector<std::pair<std::int64_t, double>> known = {
      {8, 1.4236003060},    {64, 2.3437334651},      {512, 3.0439031612},
      {4096, 3.6260821778}, {100'000, 4.3843194031}, {1'000'000'000'000, 7.1124636848}};
  for (const auto& [count, expected] : known) EXPECT_NEAR(expected_max_of_normals(count), expected, 1e-9) << count;
  EXPECT_THROW(expected_max_of_normals(0), InvalidArgument);
}

TEST(StragglerFactor, IsTheSlowestOfAll) {
  EXPECT_EQ(straggler_factor(0, 512), 1);
  EXPECT_NEAR(straggler_factor(0.5, 1), 1, 1e-9);
  EXPECT_NEAR(straggler_factor(0.1, 2), 1.0564, 5e-5);
  EXPECT_THROW(straggler_factor(-0.1, 2), InvalidArgument);
  EXPECT_THROW(straggler_factor(kNan, 2), InvalidArgument);
  EXPECT_THROW(straggler_factor(0, 0), InvalidArgument);
}

TEST(BitsPerElement, OfEveryCodec) {
  EXPECT_EQ(bits_per_element("fp32", 8), 32);
  EXPECT_EQ(bits_per_element("bf16", 8), 16);
  EXPECT_EQ(bits_per_element("t2", 8), 2);
  EXPECT_EQ(bits_per_element("t5", 8), 1.6);
  EXPECT_EQ(bits_per_element("tmask", 8, 0.25), 1.25);
  EXPECT_NEAR(bits_per_element("trans", 8, 0.29), 0.8687 + 0.29 + 0.03, 1e-4);
  EXPECT_EQ(bits_per_element("trans", 8, 0), 0.03);
  const std::vector<std::pair<int, double>> lanes = {
      {8, 64.0 / 12}, {64, 8}, {512, 12.8}, {4096, 16}, {100'000, 64.0 / 3}};
  for (const auto& [num_workers, bits] : lanes) EXPECT_EQ(bits_per_element("lanes", num_workers), bits) << num_workers;
}

TEST(BitsPerElement, RefusesOthers) {
  EXPECT_THROW(bits_per_element("fp64", 8), InvalidArgument);
  EXPECT_THROW(bits_per_element("", 8), InvalidArgument);
  EXPECT_THROW(bits_per_element("fp32", 0), InvalidArgument);
  EXPECT_THROW(bits_per_element("tmask", 8, -0.1), InvalidArgument);
  EXPECT_THROW(bits_per_element("tmask", 8, 1.1), InvalidArgument);
}

TEST(ExchangeSeconds, IsTheTableOfTheHeader) {
  const LinkModel link{.latency_seconds = 2, .bytes_per_second = 100};
  const DirectionBytes bytes{.up = 400, .down = 1200};
  EXPECT_EQ(exchange_seconds(kRing, 8, link, bytes), 14 * 2 + 7.0 / 8 * 16);
  EXPECT_EQ(exchange_seconds(kHalvingDoubling, 8, link, bytes), 6 * 2 + 7.0 / 8 * 16);
  EXPECT_EQ(exchange_seconds(kTree, 8, link, bytes), 6 * 2 + 16);
  EXPECT_EQ(exchange_seconds(kAllGather, 8, link, bytes), 7 * (2 + 4));
  EXPECT_EQ(exchange_seconds(kServers, 8, link, bytes, 1), 2 * 2 + 8 * 16);
  EXPECT_EQ(exchange_seconds(kServers, 8, link, bytes, 4), 2 * 2 + 2 * 16);
  // However many servers there are, a worker has a link.
  EXPECT_EQ(exchange_seconds(kServers, 8, link, bytes, 64), 2 * 2 + 16);
}

TEST(ExchangeSeconds, OneParticipantExchangesNothing) {
  for (const ClusterExchange exchange : {kRing, kHalvingDoubling, kTree, kAllGather, kServers}) {
    EXPECT_EQ(exchange_seconds(exchange, 1, {1, 1}, {1, 1}), 0);
    EXPECT_THROW(exchange_seconds(exchange, 0, {1, 1}, {1, 1}), InvalidArgument);
    EXPECT_THROW(exchange_seconds(exchange, 2, {1, 1}, {1, 1}, 0), InvalidArgument);
  }
}

TEST(ExchangeSeconds, GatheredCodesLoseToARingOfFloatsFrom33On) {
  const LinkModel link{0, 1e6};
  const auto gains = [&](int num_workers) {
    const double ring = exchange_seconds(kRing, num_workers, link, {.up = 32e6, .down = 32e6});
    return ring - exchange_seconds(kAllGather, num_workers, link, {.up = 2e6, .down = 0});
  };
  EXPECT_GT(gains(31), 0);
  EXPECT_NEAR(gains(32), 0, 1e-9);
  EXPECT_LT(gains(33), 0);
}

TEST(ExchangeSeconds, LatenciesOfARingAddUp) {
  const auto latency = [](ClusterExchange exchange, double microseconds) {
    return exchange_seconds(exchange, 25'000, {1e-6 * microseconds, kInfinity}, {1e9, 1e9});
  };
  EXPECT_NEAR(latency(kRing, 5), 0.25, 0.005);
  EXPECT_NEAR(latency(kRing, 290), 14.5, 0.05);
  EXPECT_NEAR(latency(kTree, 5), 0.15e-3, 0.005e-3);
  EXPECT_NEAR(latency(kTree, 290), 8.5e-3, 0.05e-3);
}

TEST(ExposedSeconds, BucketsWaitForEachOther) {
  using Times = std::vector<BucketTime>;
  EXPECT_EQ(exposed_seconds(Times{}, 10), 0);
  EXPECT_EQ(exposed_seconds(Times{{10, 3}}, 10), 3);
  EXPECT_EQ(exposed_seconds(Times{{2, 3}}, 10), 0);
  EXPECT_EQ(exposed_seconds(Times{{2, 3}, {10, 3}}, 10), 3);
  // 2 to 9, 9 to 16: the second waits for the link.
  EXPECT_EQ(exposed_seconds(Times{{2, 7}, {5, 7}}, 10), 6);
  // 2 to 5, 8 to 11: the link waits for the second.
  EXPECT_EQ(exposed_seconds(Times{{2, 3}, {8, 3}}, 10), 1);
  EXPECT_THROW(exposed_seconds(Times{{11, 3}}, 10), InvalidArgument);
  EXPECT_THROW(exposed_seconds(Times{{1, -3}}, 10), InvalidArgument);
}

TEST(PredictStep, OneWorkerExchangesNothing) {
  const StepPrediction step = predict_step(small_cluster(), small_net(), work_of("fp32"), plan_of(kRing, "fp32"), 1);
  EXPECT_EQ(step.parts.exchange.seconds(), 0);
  EXPECT_EQ(step.parts.exposed_exchange, 0);
  EXPECT_EQ(step.seconds(), 2 + 0.5 + 0.5 + 1);
  EXPECT_FALSE(step.extrapolated);
  EXPECT_THAT(names_of(step),
              ElementsAre("compute: measured", "update: given", "encode fp32: measured", "decode fp32: measured"));
}

TEST(PredictStep, OneMachineUsesTheLinkBetweenItsGpus) {
  const StepPrediction step = predict_step(small_cluster(), small_net(), work_of("fp32"), plan_of(kRing, "fp32"), 2);
  EXPECT_EQ(step.message.up, 4000);
  EXPECT_EQ(step.message.down, 4000);
  EXPECT_EQ(step.parts.exchange.inside, 2 * 0.25 + 4);
  EXPECT_EQ(step.parts.exchange.seconds(), 4.5);
  EXPECT_EQ(step.seconds(), 2 + 0.5 + 4.5 + 0.5 + 1);
  EXPECT_THAT(names_of(step),
              ElementsAre("compute: measured", "update: given", "encode fp32: measured", "decode fp32: measured",
                          "straggler deviation: assumed", "gpu link: measured"));
}

TEST(PredictStep, AFlatRingCrossesAMachinesLinkOnce) {
  const StepPrediction step = predict_step(small_cluster(), small_net(), work_of("fp32"), plan_of(kRing, "fp32"), 8);
  EXPECT_EQ(step.exchange, "ring");
  EXPECT_EQ(step.parts.exchange.inside, 0);
  EXPECT_EQ(step.parts.exchange.host, 4000.0 / 500);
  EXPECT_EQ(step.parts.exchange.network, 14 * 0.5 + 7.0 / 8 * 8000 / 250);
  EXPECT_THAT(names_of(step), ::testing::IsSupersetOf({"host link: given", "network link: assumed"}));
  EXPECT_THAT(names_of(step), ::testing::Not(::testing::Contains(HasSubstr("gpu link"))));
}

TEST(PredictStep, TwoLevelsAreARingInMachinesAndOneOfMachines) {
  const StepPrediction step =
      predict_step(small_cluster(), small_net(), work_of("bf16"), two_levels(plan_of(kRing, "bf16")), 8);
  EXPECT_EQ(step.exchange, "two_levels/ring");
  EXPECT_EQ(step.message.up, 2000);  // without fp32
  EXPECT_EQ(step.parts.exchange.inside, 2 * 0.25 + 2);
  EXPECT_EQ(step.parts.exchange.host, 4);
  EXPECT_EQ(step.parts.exchange.network, 6 * 0.5 + 3.0 / 4 * 4000 / 250);
  EXPECT_THAT(names_of(step), ::testing::IsSupersetOf({"gpu link: measured", "host link: given"}));
}

TEST(PredictStep, WorkersOfAMachineShareItsLink) {
  // 800 codes and 200 floats; seven messages arrive. Half of the bandwidth is left, for two workers.
  Cluster cluster = small_cluster();
  cluster.bisection_factor = {0.5, kGiven};
  const StepPrediction step = predict_step(cluster, small_net(), work_of("t2"), plan_of(kAllGather, ""), 8);
  EXPECT_EQ(step.message.up, 1000);
  EXPECT_EQ(step.message.down, 0);
  EXPECT_EQ(step.parts.exchange.network, 7 * (0.5 + 1000 / 62.5));
  EXPECT_EQ(step.parts.exchange.host, 2 * (1000.0 + 7000) / 2 / 500);
  EXPECT_EQ(step.parts.decode, 8 * 0.5);
  EXPECT_THAT(names_of(step), ::testing::Contains("bisection factor: given"));
  // Of two levels one message of each machine, around the ring of its GPUs.
  const StepPrediction nested =
      predict_step(cluster, small_net(), work_of("t2"), two_levels(plan_of(kAllGather, "")), 8);
  EXPECT_EQ(nested.parts.exchange.inside, 2 * 0.25 + (1000.0 + 3000) / 2 / 1000);
  EXPECT_EQ(nested.parts.exchange.host, (1000.0 + 3000) / 2 / 500);
  EXPECT_EQ(nested.parts.exchange.network, 3 * (0.5 + 1000.0 / 125));
  EXPECT_EQ(nested.parts.decode, 4 * 0.5);
  EXPECT_THAT(names_of(nested), ::testing::Contains("partial sums ternarized again, at no time: assumed"));
}

TEST(PredictStep, ServersCarryTheMessagesOfAll) {
  const auto step = [](int num_servers) {
    return predict_step(small_cluster(), small_net(), work_of("t2"), plan_of(kServers, "fp32", num_servers), 8);
  };
  EXPECT_EQ(step(1).message.down, 4000);
  EXPECT_EQ(step(1).parts.exchange.network, 2 * 0.5 + 8 * 5000.0 / 250);
  EXPECT_EQ(step(2).parts.exchange.network, 2 * 0.5 + 4 * 5000.0 / 250);
  // No less than the two workers of a machine, however many servers its machines have.
  EXPECT_EQ(step(4).parts.exchange.network, 2 * 0.5 + 2 * 5000.0 / 250);
  EXPECT_EQ(step(8).parts.exchange.network, 2 * 0.5 + 2 * 5000.0 / 250);
  EXPECT_EQ(step(4).parts.decode, (2 + 1) * 0.5);
  EXPECT_EQ(step(4).parts.exchange.host, 2 * (1000.0 + 4000) / 2 / 500);
}

TEST(PredictStep, ScalersTakeATreeOfFourBytesATensor) {
  ClusterNet net = small_net();
  net.buckets[0].num_tensors = 5;
  const StepPrediction flat = predict_step(small_cluster(), net, work_of("lanes"), plan_of(kRing, "lanes"), 8);
  EXPECT_EQ(flat.parts.exchange.scalers, 40.0 / 2 / 500 + 6 * 0.5 + 40.0 / 250);
  const StepPrediction nested =
      predict_step(small_cluster(), net, work_of("lanes"), two_levels(plan_of(kRing, "lanes")), 8);
  EXPECT_EQ(nested.parts.exchange.scalers, (2 * 0.25 + 40.0 / 1000) + 40.0 / 2 / 500 + (4 * 0.5 + 40.0 / 250));
  const StepPrediction inside = predict_step(small_cluster(), net, work_of("lanes"), plan_of(kRing, "lanes"), 2);
  EXPECT_EQ(inside.parts.exchange.scalers, 2 * 0.25 + 40.0 / 1000);
  const StepPrediction floats = predict_step(small_cluster(), net, work_of("bf16"), plan_of(kRing, "bf16"), 8);
  EXPECT_EQ(floats.parts.exchange.scalers, 0);
  EXPECT_EQ(predict_step(small_cluster(), net, work_of("t2"), plan_of(kAllGather, ""), 1).parts.exchange.scalers, 0);
}

TEST(PredictStep, BucketsHideBehindTheBackwardPass) {
  // Ready after 0.5 + 0.75 of two seconds, and at their end; each takes 0.25 latencies twice and 2 s.
  ClusterNet net = small_net();
  net.backward_fraction = {0.75, kGiven};
  net.buckets = {{.elements = 500, .ready_fraction = 0.5}, {.elements = 500, .ready_fraction = 1}};
  const StepPrediction step = predict_step(small_cluster(), net, work_of("fp32"), plan_of(kRing, "fp32"), 2);
  EXPECT_EQ(step.parts.exchange.seconds(), 2 * 2.5);
  EXPECT_EQ(step.parts.exposed_exchange, 1.25 + 2 * 2.5 - 2);
  EXPECT_THAT(names_of(step), ::testing::Contains("backward fraction: given"));
}

TEST(PredictStep, StragglersDelayTheEndOfTheBackwardPass) {
  Cluster cluster = small_cluster();
  cluster.straggler_deviation = {0.1, kMeasured};
  const StepPrediction step = predict_step(cluster, small_net(), work_of("fp32"), plan_of(kRing, "fp32"), 2);
  EXPECT_EQ(step.parts.compute, 2);
  EXPECT_NEAR(step.parts.straggler_factor, 1.0564, 5e-5);
  EXPECT_NEAR(step.seconds(), 2 * 1.0564 + 0.5 + 4.5 + 0.5 + 1, 1e-3);
  EXPECT_THAT(names_of(step), ::testing::Contains("straggler deviation: measured"));
}

TEST(PredictStep, LanesGrowWithTheWorkers) {
  const auto up = [](int num_workers) {
    return predict_step(small_cluster(), small_net(), work_of("lanes"), plan_of(kRing, "lanes"), num_workers)
        .message.up;
  };
  EXPECT_EQ(up(64), 800 + 800);
  EXPECT_EQ(up(512), 800 * 12.8 / 8 + 800);
  const StepPrediction masked = predict_step(small_cluster(), small_net(), work_of("tmask"), plan_of(kAllGather, ""), 2,
                                             {.value = 0.25, .source = kMeasured});
  EXPECT_EQ(masked.message.up, 800 * 1.25 / 8 + 800);
  EXPECT_THAT(names_of(masked), ::testing::Contains("non-zero fraction: measured"));
}

TEST(PredictStep, BeyondFourTimesTheMeasuredWorkersIsExtrapolated) {
  const auto is_extrapolated_at = [](int num_workers) {
    return predict_step(small_cluster(), small_net(), work_of("fp32"), plan_of(kTree, "fp32"), num_workers)
        .extrapolated;
  };
  EXPECT_FALSE(is_extrapolated_at(8));
  EXPECT_TRUE(is_extrapolated_at(10));
  EXPECT_TRUE(is_extrapolated_at(100'000));
  Cluster largest = small_cluster();
  largest.measured_workers = std::numeric_limits<int>::max();
  EXPECT_FALSE(is_extrapolated(largest, std::numeric_limits<int>::max()));
}

TEST(PredictStep, RefusesWorkersThatFillMachinesInPart) {
  for (const int num_workers : {-1, 0, 3, 7}) {
    EXPECT_THROW(predict_step(small_cluster(), small_net(), work_of("fp32"), plan_of(kRing, "fp32"), num_workers),
                 InvalidArgument)
        << num_workers;
    EXPECT_THROW(suitable_plans(small_cluster(), "fp32", num_workers), InvalidArgument) << num_workers;
  }
}

TEST(PredictStep, RefusesPlansThatDoNotWork) {
  const auto refuses = [](const std::string& codec, const ClusterPlan& plan) {
    EXPECT_THROW(predict_step(small_cluster(), small_net(), work_of(codec), plan, 8), InvalidArgument)
        << codec << " " << name_of(plan);
  };
  refuses("t2", plan_of(kAllGather, "fp32"));
  refuses("t2", plan_of(kServers, ""));
  refuses("lanes", plan_of(kAllGather, ""));
  refuses("fp64", plan_of(kRing, "fp32"));
  refuses("fp32", plan_of(kRing, "fp64"));
  refuses("t2", plan_of(kServers, "fp32", 0));
}

TEST(PredictStep, RefusesNumbersOutOfRange) {
  const auto refuses = [](auto&& change) {
    Cluster cluster = small_cluster();
    ClusterNet net = small_net();
    change(cluster, net);
    EXPECT_THROW(predict_step(cluster, net, work_of("fp32"), plan_of(kRing, "fp32"), 8), InvalidArgument);
  };
  refuses([](Cluster& cluster, ClusterNet&) { cluster.gpus_per_machine = 0; });
  refuses([](Cluster& cluster, ClusterNet&) { cluster.gpu.value.bytes_per_second = 0; });
  refuses([](Cluster& cluster, ClusterNet&) { cluster.host.value.latency_seconds = -1; });
  refuses([](Cluster& cluster, ClusterNet&) { cluster.network.value.bytes_per_second = kNan; });
  refuses([](Cluster& cluster, ClusterNet&) { cluster.bisection_factor.value = 0; });
  refuses([](Cluster& cluster, ClusterNet&) { cluster.bisection_factor.value = 1.5; });
  refuses([](Cluster& cluster, ClusterNet&) { cluster.straggler_deviation.value = -1; });
  refuses([](Cluster& cluster, ClusterNet&) { cluster.measured_workers = 0; });
  refuses([](Cluster&, ClusterNet& net) { net.buckets.clear(); });
  refuses([](Cluster&, ClusterNet& net) { net.buckets[0].plain_elements = 1001; });
  refuses([](Cluster&, ClusterNet& net) { net.buckets[0].num_tensors = -1; });
  refuses([](Cluster&, ClusterNet& net) { net.buckets[0].ready_fraction = 0; });
  refuses([](Cluster&, ClusterNet& net) { net.backward_fraction.value = 1.5; });
  refuses([](Cluster&, ClusterNet& net) { net.examples_per_worker = 0; });
  refuses([](Cluster&, ClusterNet& net) { net.update.value.seconds_per_unit = kInfinity; });
}

TEST(SuitablePlans, AllWork) {
  for (const char* codec : {"fp32", "bf16", "t2", "t5", "tmask", "trans", "lanes"}) {
    for (const int num_workers : {1, 2, 8, 64}) {
      const std::vector<ClusterPlan> plans = suitable_plans(small_cluster(), codec, num_workers);
      EXPECT_EQ(plans.size(), (num_workers > 2 ? 2u : 1u) * (std::string(codec)[0] == 't' ? 4u : 3u)) << codec;
      for (const ClusterPlan& plan : plans) {
        const StepPrediction step = predict_step(small_cluster(), small_net(), work_of(codec), plan, num_workers);
        EXPECT_EQ(step.uplink, codec);
        EXPECT_GT(step.seconds(), 0);
      }
    }
  }
  EXPECT_THROW(suitable_plans(small_cluster(), "fp64", 8), InvalidArgument);
}

TEST(SuitablePlans, OfCodesHaveADownlinkOrNone) {
  std::vector<std::string> rows;
  for (const ClusterPlan& plan : suitable_plans(small_cluster(), "t5", 8)) {
    rows.push_back(name_of(plan) + " " + plan.downlink + " " + std::to_string(plan.num_servers));
  }
  EXPECT_THAT(rows,
              ElementsAre("all_gather  1", "two_levels/all_gather  1", "servers fp32 4", "two_levels/servers fp32 4",
                          "servers bf16 4", "two_levels/servers bf16 4", "servers t5 4", "two_levels/servers t5 4"));
}

}  // namespace
}  // namespace terngrad::cluster_model_test
