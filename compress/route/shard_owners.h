// ShardOwners: which ranks aggregate which shards of the gradient.
#pragma once

#include <cstddef>
#include <span>
#include <string>
#include <vector>

#include "compress/comm/communicator.h"

namespace terngrad {

/// Owners of the shards into which scatter_reduce cuts a gradient.
enum class ShardOwners {
  kWorkers,  // worker j owns shard j of N
  kServers,  // server j of S owns shard j (parameter server). Servers are the last ranks of the group
             // (WorkerGroup::num_servers); without any, rank 0 is the only server, beside its workers
};

/// "workers", "servers".
std::string to_string(ShardOwners owners);

/// The worker range of each rank.
std::vector<WorkerRange> ranks_of(const WorkerGroup& workers);

/// Number of shards: N workers, or S servers (at least 1).
int num_shards(const WorkerGroup& workers, ShardOwners owners);

/// Consecutive shards.
struct ShardRange {
  std::size_t first = 0;
  std::size_t count = 0;
  std::size_t end() const { return first + count; }
  bool has(std::size_t shard) const { return shard >= first && shard < end(); }
};

/// Shards that a rank owns.
ShardRange shards_of(const WorkerGroup& workers, ShardOwners owners, int rank);

/// Shards of each rank if all ranks have workers. kServers: the only shard belongs to the first rank.
/// @param ranks  worker range of each rank
std::vector<ShardRange> shards_of_ranks(std::span<const WorkerRange> ranks, ShardOwners owners);

}  // namespace terngrad
