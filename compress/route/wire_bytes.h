// Bytes that an exchange moves over the links of its nodes, and the bytes of plain fp32 for comparison.
#pragma once

#include <cstdint>
#include <optional>

#include "compress/comm/all_reduce_bytes.h"
#include "compress/comm/communicator.h"
#include "compress/route/exchange_report.h"
#include "compress/route/shard_owners.h"

namespace terngrad {

/// Bytes that each node sends and receives in an all-reduce of fp32 gradients, 2 (N - 1) / N * 4 per element,
/// unrounded: the reference of compression ratios.
double fp32_all_reduce_bytes(std::int64_t num_elements, int num_workers);

/// Bytes that a node sends and receives.
struct NodeBytes {
  double sent = 0;
  double received = 0;
  double busier() const { return sent > received ? sent : received; }
};

/// Mean over the workers, or over the servers, that `bytes` counts (for sums over several steps: also over the steps);
/// zeros if there are none.
NodeBytes bytes_per_worker(const ExchangeBytes& bytes);
NodeBytes bytes_per_server(const ExchangeBytes& bytes);
/// True if a server moves more than a worker, each in its busier direction; its link then limits the exchange.
bool servers_are_busier(const ExchangeBytes& bytes);
/// Bytes of a server or a worker, whichever is busier.
NodeBytes bytes_of_busiest(const ExchangeBytes& bytes);

/// Compression ratio: fp32_all_reduce_bytes over the bytes of the busiest node in its busier direction. None for one
/// worker, and if nothing was exchanged.
/// @param bytes  summed over all workers and servers
std::optional<double> wire_ratio(const ExchangeBytes& bytes, std::int64_t num_elements, int num_workers);

/// The nodes of an exchange. Each of N workers and each server counts as its own process, however many of them this
/// process runs. If servers own the shards but none is a process of its own, worker 0's node serves and counts as a
/// server, not as a worker.
class WireNodes {
 public:
  explicit WireNodes(const WorkerGroup& group, ShardOwners owners = ShardOwners::kWorkers)
      : WireNodes(group, group.num_servers, owners) {}
  WireNodes(const WorkerRange& workers, int num_servers, ShardOwners owners)
      : workers_(workers), num_servers_(num_servers), owners_(owners) {}

  /// Number of other nodes that receive a message to all.
  int num_peers() const { return workers_.num_workers + num_servers_ - 1; }
  bool worker_serves(int worker) const { return owners_ == ShardOwners::kServers && num_servers_ == 0 && worker == 0; }
  /// True if the slice that `worker` sends to the owner of `shard` stays within its node.
  bool keeps(int worker, std::size_t shard) const {
    return owners_ == ShardOwners::kWorkers ? shard == static_cast<std::size_t>(worker) : worker_serves(worker);
  }

  /// Adds the number of this process's nodes. Call it once per exchange.
  void count_nodes(ExchangeBytes& total) const;
  /// Counter for the bytes of a worker: `leg`, or the servers' counter if the worker's node serves.
  LegBytes& of_worker(ExchangeBytes& total, LegBytes ExchangeBytes::*leg, int worker) const {
    return worker_serves(worker) ? total.servers : total.*leg;
  }
  /// Counter for the bytes of an owner of shards.
  LegBytes& of_owner(ExchangeBytes& total, LegBytes ExchangeBytes::*leg) const {
    return owners_ == ShardOwners::kServers ? total.servers : total.*leg;
  }
  /// Adds `bytes` for every node of this process.
  void add_to_each(ExchangeBytes& total, LegBytes ExchangeBytes::*leg, const LegBytes& bytes) const;
  /// Adds an all-reduce between all nodes.
  void add_all_reduce(ExchangeBytes& total, LegBytes ExchangeBytes::*leg, std::int64_t num_bytes) const {
    const std::int64_t bytes = all_reduce_bytes(num_bytes, num_peers() + 1);
    add_to_each(total, leg, {bytes, bytes});
  }
  /// Adds an all-gather: a message of each of this process's workers to all other nodes.
  /// @param own  function of a local worker: bytes of its message; @param all  bytes of all workers' messages
  template <class OwnBytes>
  void add_gathered(ExchangeBytes& total, LegBytes ExchangeBytes::*leg, const OwnBytes& own, std::int64_t all) const {
    for (int local = 0; local < workers_.num_local_workers; ++local) {
      const std::int64_t bytes = own(local);
      of_worker(total, leg, workers_.first_local_worker + local) += {bytes * num_peers(), all - bytes};
    }
    if (is_server()) total.servers += {0, all};
  }
  /// Adds a shard of the mean that its owner sends to all other nodes. @param own  shards of this process
  void add_shard(ExchangeBytes& total, LegBytes ExchangeBytes::*leg, const ShardRange& own, std::size_t shard,
                 std::int64_t bytes) const;

 private:
  /// True if this process is a server without workers.
  bool is_server() const { return workers_.num_local_workers == 0; }

  WorkerRange workers_;
  int num_servers_ = 0;
  ShardOwners owners_ = ShardOwners::kWorkers;
};

}  // namespace terngrad
