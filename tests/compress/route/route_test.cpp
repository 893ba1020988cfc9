// Reported and predicted bytes equal the bytes that cross between processes.
#include "compress/route/route.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <memory>
#include <mutex>
#include <string>
#include <vector>

#include "compress/codecs/ternary_spec.h"
#include "compress/comm/metered_communicator.h"
#include "compress/exchange/shard_update.h"
#include "compress/route/wire_bytes.h"
#include "kernels/runtime/errors.h"
#include "support/exchanges.h"
#include "support/thread_communicator.h"

namespace terngrad::route_test {
namespace {

using testing::blank_tensors;
using testing::kDownlinkCodecs;
using testing::mixed_layout;
using testing::options_of;
using testing::tables;
using testing::Tensors;
using testing::worker_gradients;

constexpr int kWorlds[] = {2, 4, 8};
constexpr ExchangeAlgorithm kNamed[] = {ExchangeAlgorithm::kAllGather, ExchangeAlgorithm::kScatterReduce,
                                        ExchangeAlgorithm::kIntegerSum};

/// A node's report and the bytes that it moved; each node is a rank.
struct Node {
  ExchangeReport report;
  LegBytes moved;
};

/// An exchange between `num_workers` ranks with one worker each, and `num_servers` servers.
/// @param make  (layout, worker group) makes each rank's exchange
template <class Make>
std::vector<Node> exchange_of(int num_workers, int num_servers, const Make& make) {
  const Layout layout = mixed_layout();
  const std::vector<Tensors> workers = worker_gradients(layout, num_workers);
  std::vector<Node> nodes(static_cast<std::size_t>(num_workers + num_servers));
  const auto errors = testing::run_ranks(num_workers + num_servers, [&](const std::shared_ptr<Communicator>& ranks) {
    const auto metered = std::make_shared<MeteredCommunicator>(ranks);
    const WorkerGroup group = make_worker_group(num_workers, metered, num_servers);
    const std::unique_ptr<CompressedAllReduce> exchange = make(layout, group);
    Tensors mean = blank_tensors(layout);
    const int first = group.is_server() ? 0 : group.first_local_worker;
    Node& node = nodes[static_cast<std::size_t>(ranks->rank())];
    metered->reset();
    node.report = exchange->exchange(tables(workers, first, group.num_local_workers), mean.table, 4);
    node.moved = {metered->sent_bytes(), metered->received_bytes()};
  });
  for (const auto& error : errors) EXPECT_EQ(error, nullptr);
  return nodes;
}

std::vector<Node> exchange_of(int num_workers, const CompressedAllReduceOptions& options, int num_servers = 0) {
  return exchange_of(num_workers, num_servers, [&](const Layout& layout, const WorkerGroup& group) {
    return std::make_unique<CompressedAllReduce>(layout, group, options);
  });
}

/// Expects that each node reports the bytes that crossed its link, and that sent and received bytes agree in total.
void expect_what_crossed(const std::vector<Node>& nodes) {
  ExchangeBytes total;
  for (const Node& node : nodes) {
    EXPECT_GT(node.moved.sent, 0);
    EXPECT_EQ(node.report.sent_bytes(), node.moved.sent);
    EXPECT_EQ(node.report.received_bytes(), node.moved.received);
    EXPECT_EQ(node.report.num_workers + node.report.num_servers, 1);
    total += node.report;
  }
  EXPECT_EQ(total.sent_bytes(), total.received_bytes());
}

void expect_same(const ExchangeBytes& expected, const ExchangeBytes& found) {
  EXPECT_EQ(found.workers().sent, expected.workers().sent);
  EXPECT_EQ(found.workers().received, expected.workers().received);
  EXPECT_EQ(found.servers.sent, expected.servers.sent);
  EXPECT_EQ(found.servers.received, expected.servers.received);
  EXPECT_EQ(found.num_workers, expected.num_workers);
  EXPECT_EQ(found.num_servers, expected.num_servers);
}

/// Expects that a process with all N workers reports the sum of the nodes' reports.
void expect_from_one_process(int num_workers, const CompressedAllReduceOptions& options,
                             const std::vector<Node>& nodes) {
  const Layout layout = mixed_layout();
  const std::vector<Tensors> workers = worker_gradients(layout, num_workers);
  CompressedAllReduce exchange = testing::local_exchange(layout, num_workers, options);
  Tensors mean = blank_tensors(layout);
  ExchangeBytes total;
  for (const Node& node : nodes) total += node.report;
  expect_same(total, exchange.exchange(tables(workers, 0, num_workers), mean.table, 4));
}

std::int64_t busiest_of(const std::vector<Node>& nodes) {
  std::int64_t most = 0;
  for (const Node& node : nodes) most = std::max({most, node.moved.sent, node.moved.received});
  return most;
}

TEST(ExchangeBytes, OfScalersThatAreNotSharedAreFlags) {
  // Headers, and per tensor a record and a flag of 8 bytes, also for blocks.
  const Layout layout = mixed_layout();
  const auto plan_of = [&](const std::string& spec) {
    CodecPlanOptions options;
    options.codec = spec;
    options.quantize_logits = true;
    return CodecPlan(layout, options);
  };
  const auto bytes_of = [&](const std::string& spec) { return scalers_message_bytes(layout, plan_of(spec)); };
  const std::int64_t flags = bytes_of("qsgd:block=0");
  EXPECT_EQ(bytes_of("qsgd:block=64"), flags);
  EXPECT_EQ(bytes_of("ternary:scope=block,block=64,sharing=none"), flags);
  EXPECT_EQ(bytes_of("ternary"), flags);
  EXPECT_EQ(bytes_of("fp32"), flags);
  const std::int64_t num_blocks = plan_of("qsgd:block=64,sharing=max").num_scalers();
  EXPECT_GT(bytes_of("qsgd:block=64,sharing=max"), 4 * num_blocks);
  EXPECT_LT(flags, 4 * num_blocks);
}

TEST(ExchangeBytes, AreThoseThatCrossAndAreKnownBefore) {
  for (const int num_workers : kWorlds) {
    for (const ExchangeAlgorithm algorithm : kNamed) {
      for (const DownlinkCodec downlink_codec : kDownlinkCodecs) {
        for (const TernaryFormat format : {TernaryFormat::kT2, TernaryFormat::kT5}) {
          CompressedAllReduceOptions options = options_of(algorithm, downlink_codec);
          options.codecs.codec = ternary_spec({.format = format});
          SCOPED_TRACE(std::to_string(num_workers) + " " + testing::options_text(options));
          const std::vector<Node> nodes = exchange_of(num_workers, options);
          expect_what_crossed(nodes);
          expect_from_one_process(num_workers, options, nodes);
          const Layout layout = mixed_layout();
          const CodecPlan plan(layout, with_workers(options.codecs, num_workers));
          EXPECT_EQ(busiest_worker_bytes(algorithm, downlink_codec, layout, plan, num_workers), busiest_of(nodes));
        }
      }
    }
  }
}

TEST(ExchangeBytes, OfAutoInOneProcessAreThoseOfTheAlgorithmThatItChose) {
  for (const DownlinkCodec downlink_codec : kDownlinkCodecs) {
    for (const TernaryFormat format :
         {TernaryFormat::kT2, TernaryFormat::kT5, TernaryFormat::kTMask, TernaryFormat::kTrans}) {
      CompressedAllReduceOptions options = options_of(ExchangeAlgorithm::kAuto, downlink_codec);
      options.codecs.codec = ternary_spec({.format = format});
      const Layout layout = mixed_layout();
      const std::vector<Tensors> workers = worker_gradients(layout, 8);
      CompressedAllReduce chosen = testing::local_exchange(layout, 8, options);
      Tensors mean = blank_tensors(layout);
      const ExchangeReport found = chosen.exchange(tables(workers, 0, 8), mean.table, 4);
      options.algorithm = testing::algorithm_of(chosen);
      CompressedAllReduce named = testing::local_exchange(layout, 8, options);
      Tensors expected_mean = blank_tensors(layout);
      SCOPED_TRACE(testing::options_text(options));
      const ExchangeReport expected = named.exchange(tables(workers, 0, 8), expected_mean.table, 4);
      expect_same(expected, found);
      EXPECT_EQ(found.gradient.sent, expected.gradient.sent);
      EXPECT_EQ(found.mean.sent, expected.mean.sent);
      EXPECT_EQ(mean.values, expected_mean.values);
    }
  }
}

TEST(ExchangeBytes, OfNumbersAndBlocksAreThoseThatCross) {
  for (const int num_workers : kWorlds) {
    for (const char* codec : {"fp32", "bf16", "ternary:scope=block,block=256"}) {
      for (const ExchangeAlgorithm algorithm : {ExchangeAlgorithm::kAllGather, ExchangeAlgorithm::kScatterReduce}) {
        CompressedAllReduceOptions options = options_of(algorithm);
        options.codecs.codec = codec;
        SCOPED_TRACE(std::to_string(num_workers) + codec + word_of(algorithm));
        const std::vector<Node> nodes = exchange_of(num_workers, options);
        expect_what_crossed(nodes);
        const Layout layout = mixed_layout();
        const CodecPlan plan(layout, with_workers(options.codecs, num_workers));
        EXPECT_EQ(busiest_worker_bytes(algorithm, DownlinkCodec::kFloat32, layout, plan, num_workers),
                  busiest_of(nodes));
      }
    }
  }
}

TEST(ExchangeBytes, OfPayloadsOfAnySizeAreThoseThatCrossAndAtMostThoseKnown) {
  for (const int num_workers : kWorlds) {
    CompressedAllReduceOptions options = options_of(ExchangeAlgorithm::kAllGather);
    options.codecs.codec = "ternary:format=tmask";
    const std::vector<Node> nodes = exchange_of(num_workers, options);
    expect_what_crossed(nodes);
    const Layout layout = mixed_layout();
    const CodecPlan plan(layout, with_workers(options.codecs, num_workers));
    EXPECT_GE(busiest_worker_bytes(options.algorithm, DownlinkCodec::kFloat32, layout, plan, num_workers),
              busiest_of(nodes));
  }
}

TEST(ExchangeBytes, WithServersAreThoseThatCross) {
  for (const int num_workers : kWorlds) {
    for (const int num_servers : {0, 1, 3}) {
      for (const DownlinkCodec downlink_codec : kDownlinkCodecs) {
        CompressedAllReduceOptions options = options_of(ExchangeAlgorithm::kAuto, downlink_codec);
        options.owners = ShardOwners::kServers;
        SCOPED_TRACE(std::to_string(num_workers) + " " + std::to_string(num_servers) + word_of(downlink_codec));
        const std::vector<Node> nodes = exchange_of(num_workers, options, num_servers);
        expect_what_crossed(nodes);
        if (num_servers == 0) expect_from_one_process(num_workers, options, nodes);
      }
    }
  }
}

/// Leaves shards unchanged.
class NoUpdate final : public ShardUpdate {
 public:
  void update(std::size_t, std::span<const Slice>, const TensorTable&, std::uint64_t) override {}
};

TEST(ExchangeBytes, OfServersThatUpdateAreThoseThatCross) {
  NoUpdate update;
  for (const int num_servers : {0, 2}) {
    CompressedAllReduceOptions options = options_of(ExchangeAlgorithm::kAuto);
    options.owners = ShardOwners::kServers;
    options.update = &update;
    expect_what_crossed(exchange_of(4, options, num_servers));
  }
}

TEST(ExchangeBytes, OfTheVendorAreThoseOfAnAllReduceAndOfNoRatio) {
  const std::int64_t num_elements = mixed_layout().num_elements();
  for (const int num_workers : kWorlds) {
    for (const ElementType type : {ElementType::kFloat32, ElementType::kBfloat16}) {
      const std::vector<Node> nodes = exchange_of(num_workers, 0, [&](const Layout& layout, const WorkerGroup& group) {
        CompressedAllReduceOptions options;
        options.vendor_type = type;
        return std::make_unique<CompressedAllReduce>(layout, group, options);
      });
      expect_what_crossed(nodes);
      const double expected = type == ElementType::kFloat32 ? 1 : 2;
      EXPECT_NEAR(*wire_ratio(nodes[0].report, num_elements, num_workers), expected, 1e-4);
    }
  }
}

TEST(ExchangeBytes, OfPlainNumbersByScatterReduceAreThoseOfAnAllReduce) {
  Layout layout;
  layout.add("a", {4096 * 64});
  CodecPlanOptions codecs;
  codecs.codec = "fp32";
  for (const int num_workers : kWorlds) {
    const CodecPlan plan(layout, with_workers(codecs, num_workers));
    const std::int64_t bytes =
        busiest_worker_bytes(ExchangeAlgorithm::kScatterReduce, DownlinkCodec::kFloat32, layout, plan, num_workers);
    EXPECT_NEAR(static_cast<double>(bytes) / fp32_all_reduce_bytes(layout.num_elements(), num_workers), 1, 0.003);
  }
}

TEST(ExchangeBytes, AreOfANamedAlgorithmThatCanRun) {
  const Layout layout = mixed_layout();
  CodecPlanOptions codecs;
  codecs.codec = "fp32";
  const CodecPlan plan(layout, with_workers(codecs, 4));
  EXPECT_THROW(busiest_worker_bytes(ExchangeAlgorithm::kAuto, DownlinkCodec::kFloat32, layout, plan, 4),
               InvalidArgument);
  EXPECT_THROW(busiest_worker_bytes(ExchangeAlgorithm::kIntegerSum, DownlinkCodec::kFloat32, layout, plan, 4),
               InvalidArgument);
}

}  // namespace
}  // namespace terngrad::route_test
