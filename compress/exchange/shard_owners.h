// ShardOwners: who aggregates what of the workers' gradients.
#pragma once

#include <cstddef>
#include <span>
#include <string>
#include <vector>

#include "compress/comm/communicator.h"

namespace terngrad {

/// Who owns the shards that scatter_reduce cuts a gradient into.
enum class ShardOwners {
  kWorkers,  // worker j owns shard j of N
  kServers,  // server j of S owns shard j: a parameter server. The servers are the last ranks of the group
             // (WorkerGroup::num_servers); where it has none, rank 0 is the only one, beside its workers
};

/// "workers", "servers".
std::string to_string(ShardOwners owners);

/// The workers of each rank.
std::vector<WorkerRange> ranks_of(const WorkerGroup& workers);

/// How many shards there are.
int num_shards(const WorkerGroup& workers, ShardOwners owners);

/// Consecutive shards.
struct ShardRange {
  std::size_t first = 0;
  std::size_t count = 0;
  std::size_t end() const { return first + count; }
  bool has(std::size_t shard) const { return shard >= first && shard < end(); }
};

/// The shards that a rank owns.
ShardRange shards_of(const WorkerGroup& workers, ShardOwners owners, int rank);

/// The shards of each of several ranks that all have workers: of these, or, of servers, the only shard for the first
/// rank. @param ranks  the workers of each
std::vector<ShardRange> shards_of_ranks(std::span<const WorkerRange> ranks, ShardOwners owners);

}  // namespace terngrad
