#include "compress/route/wire_bytes.h"

#include <gtest/gtest.h>

#include <initializer_list>

namespace terngrad::wire_bytes_test {
namespace {

TEST(WireBytes, OfFp32AreTwiceAllButOneShare) { EXPECT_EQ(fp32_all_reduce_bytes(100, 8), 700); }

ExchangeBytes of_workers(std::int64_t sent, std::int64_t received, int num_workers) {
  return {.gradient = {sent, received}, .num_workers = num_workers};
}

TEST(WireRatio, IsOfTheBusierDirection) {
  EXPECT_EQ(wire_ratio(of_workers(80, 400, 8), 100, 8), 700.0 / 50);
  EXPECT_EQ(wire_ratio(of_workers(400, 80, 8), 100, 8), 700.0 / 50);
}

TEST(WireRatio, IsOfTheBusiestNode) {
  ExchangeBytes bytes = of_workers(80, 400, 8);
  bytes.servers = {.sent = 40, .received = 98};
  bytes.num_servers = 2;
  EXPECT_FALSE(servers_are_busier(bytes));
  EXPECT_EQ(bytes_of_busiest(bytes).received, 50);
  bytes.servers.sent = 1000;
  EXPECT_TRUE(servers_are_busier(bytes));
  EXPECT_EQ(bytes_of_busiest(bytes).sent, 500);
  EXPECT_EQ(bytes_of_busiest(bytes).received, 49);
  EXPECT_EQ(wire_ratio(bytes, 100, 8), 700.0 / 500);
}

TEST(WireRatio, OfOneWorkerOrOfNothingIsNone) {
  EXPECT_FALSE(wire_ratio(of_workers(0, 0, 1), 100, 1).has_value());
  EXPECT_FALSE(wire_ratio(of_workers(50, 60, 1), 100, 1).has_value());  // to a server
  EXPECT_FALSE(wire_ratio(of_workers(0, 0, 4), 100, 4).has_value());
  EXPECT_FALSE(wire_ratio({}, 100, 4).has_value());
}

/// Sum over all processes.
template <class Add>
ExchangeBytes total_of(int num_workers, int num_servers, ShardOwners owners, const Add& add) {
  ExchangeBytes total;
  for (int worker = 0; worker < num_workers; ++worker) {
    const WireNodes nodes({num_workers, worker, 1}, num_servers, owners);
    nodes.count_nodes(total);
    add(nodes, worker, total);
  }
  for (int server = 0; server < num_servers; ++server) {
    const WireNodes nodes({num_workers, num_workers, 0}, num_servers, owners);
    nodes.count_nodes(total);
    add(nodes, num_workers + server, total);
  }
  return total;
}

TEST(WireNodes, GatherFromWorkersToAllOthers) {
  const auto gather = [](const WireNodes& nodes, int, ExchangeBytes& total) {
    nodes.add_gathered(
        total, &ExchangeBytes::gradient, [](int) { return 10; }, 30);
  };
  const ExchangeBytes plain = total_of(3, 0, ShardOwners::kWorkers, gather);
  EXPECT_EQ(plain.gradient.sent, 3 * 20);
  EXPECT_EQ(plain.gradient.received, 3 * 20);
  EXPECT_EQ(plain.num_workers, 3);
  const ExchangeBytes served = total_of(3, 2, ShardOwners::kServers, gather);
  EXPECT_EQ(served.gradient.sent, 3 * 40);
  EXPECT_EQ(served.gradient.received, 3 * 20);
  EXPECT_EQ(served.servers.received, 2 * 30);
  EXPECT_EQ(served.num_servers, 2);
}

TEST(WireNodes, WhereWorkerZeroServesItIsAServer) {
  const ExchangeBytes total =
      total_of(3, 0, ShardOwners::kServers, [](const WireNodes& nodes, int node, ExchangeBytes& sum) {
        nodes.add_shard(sum, &ExchangeBytes::mean, {0, node == 0 ? std::size_t{1} : 0}, 0, 100);
        EXPECT_EQ(nodes.keeps(node, 0), node == 0);
      });
  EXPECT_EQ(total.num_workers, 2);
  EXPECT_EQ(total.num_servers, 1);
  EXPECT_EQ(total.servers.sent, 200);
  EXPECT_EQ(total.servers.received, 0);
  EXPECT_EQ(total.mean.received, 200);
}

TEST(WireNodes, WhatIsSentIsReceived) {
  for (const ShardOwners owners : {ShardOwners::kWorkers, ShardOwners::kServers}) {
    for (const int num_servers : {0, 2}) {
      if (owners == ShardOwners::kWorkers && num_servers > 0) continue;
      const auto add = [](const WireNodes& nodes, int, ExchangeBytes& total) {
        nodes.add_gathered(
            total, &ExchangeBytes::scalers, [](int) { return 7; }, 4 * 7);
        nodes.add_all_reduce(total, &ExchangeBytes::mean, 48);
      };
      const ExchangeBytes total = total_of(4, num_servers, owners, add);
      EXPECT_GT(total.sent_bytes(), 0);
      EXPECT_EQ(total.sent_bytes(), total.received_bytes());
    }
  }
}

}  // namespace
}  // namespace terngrad::wire_bytes_test
