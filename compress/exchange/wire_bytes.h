// What an exchange moves over the links of its nodes: how bytes are counted, and what plain fp32 would take.
#pragma once

#include <cstdint>
#include <optional>

#include "compress/comm/all_reduce_bytes.h"
#include "compress/comm/communicator.h"
#include "compress/exchange/gradient_exchange.h"
#include "compress/exchange/shard_owners.h"

namespace terngrad {

/// The same of a gradient in fp32, 2 (N - 1) / N * 4 bytes per element, unrounded: what ratios compare with.
double fp32_all_reduce_bytes(std::int64_t num_elements, int num_workers);

/// What a node sends and receives.
struct NodeBytes {
  double sent = 0;
  double received = 0;
  double busier() const { return sent > received ? sent : received; }
};

/// Means over the workers, and over the servers, that bytes are of (and over steps, of sums over steps); zeros where
/// there are none.
NodeBytes bytes_per_worker(const ExchangeBytes& bytes);
NodeBytes bytes_per_server(const ExchangeBytes& bytes);
/// Whether a server moves more than a worker, each in its busier direction: then its link is what an exchange waits
/// for.
bool servers_are_busier(const ExchangeBytes& bytes);
/// Those of the busier of the two.
NodeBytes bytes_of_busiest(const ExchangeBytes& bytes);

/// fp32_all_reduce_bytes over the busier direction of the busiest node: by how much less it moves than the best plain
/// exchange. None for one worker, which has nothing to exchange, and where nothing was.
/// @param bytes  of all workers and servers
std::optional<double> wire_ratio(const ExchangeBytes& bytes, std::int64_t num_elements, int num_workers);

/// The nodes of an exchange: each of N workers and each server is counted as its own process, however many of them
/// this process runs. Where servers own the shards but none is its own process, worker 0's node serves: it counts
/// as a server and not as a worker.
class WireNodes {
 public:
  explicit WireNodes(const WorkerGroup& group, ShardOwners owners = ShardOwners::kWorkers)
      : WireNodes(group, group.num_servers, owners) {}
  WireNodes(const WorkerRange& workers, int num_servers, ShardOwners owners)
      : workers_(workers), num_servers_(num_servers), owners_(owners) {}

  /// To how many others a node sends what all get.
  int num_peers() const { return workers_.num_workers + num_servers_ - 1; }
  bool worker_serves(int worker) const { return owners_ == ShardOwners::kServers && num_servers_ == 0 && worker == 0; }
  /// Whether what `worker` sends to the owner of `shard` stays in its node.
  bool keeps(int worker, std::size_t shard) const {
    return owners_ == ShardOwners::kWorkers ? shard == static_cast<std::size_t>(worker) : worker_serves(worker);
  }

  /// Says how many nodes this process has. To be called once for an exchange.
  void count_nodes(ExchangeBytes& total) const;
  /// Where the bytes of a worker count: in `leg`, or with the servers'.
  LegBytes& of_worker(ExchangeBytes& total, LegBytes ExchangeBytes::*leg, int worker) const {
    return worker_serves(worker) ? total.servers : total.*leg;
  }
  /// Where those of the owner of a shard count.
  LegBytes& of_owner(ExchangeBytes& total, LegBytes ExchangeBytes::*leg) const {
    return owners_ == ShardOwners::kServers ? total.servers : total.*leg;
  }
  /// Adds what every node of this process sends and receives.
  void add_to_each(ExchangeBytes& total, LegBytes ExchangeBytes::*leg, const LegBytes& bytes) const;
  /// Adds an all-reduce between all nodes.
  void add_all_reduce(ExchangeBytes& total, LegBytes ExchangeBytes::*leg, std::int64_t num_bytes) const {
    const std::int64_t bytes = all_reduce_bytes(num_bytes, num_peers() + 1);
    add_to_each(total, leg, {bytes, bytes});
  }
  /// Adds a message of each of this process's workers that goes to all other nodes.
  /// @param own  bytes of each; @param all  of those of all workers
  template <class OwnBytes>
  void add_gathered(ExchangeBytes& total, LegBytes ExchangeBytes::*leg, const OwnBytes& own, std::int64_t all) const {
    for (int local = 0; local < workers_.num_local_workers; ++local) {
      const std::int64_t bytes = own(local);
      of_worker(total, leg, workers_.first_local_worker + local) += {bytes * num_peers(), all - bytes};
    }
    if (is_server()) total.servers += {0, all};
  }
  /// Adds a shard of the mean that its owner sends to all other nodes. @param own  the shards of this process
  void add_shard(ExchangeBytes& total, LegBytes ExchangeBytes::*leg, const ShardRange& own, std::size_t shard,
                 std::int64_t bytes) const;

 private:
  /// Whether this process is a server and has no workers.
  bool is_server() const { return workers_.num_local_workers == 0; }

  WorkerRange workers_;
  int num_servers_ = 0;
  ShardOwners owners_ = ShardOwners::kWorkers;
};

}  // namespace terngrad
