#include "compress/route/shard_owners.h"

#include <algorithm>

namespace terngrad {

std::string to_string(ShardOwners owners) { return owners == ShardOwners::kWorkers ? "workers" : "servers"; }

std::vector<WorkerRange> ranks_of(const WorkerGroup& workers) {
  std::vector<WorkerRange> ranks;
  ranks.reserve(static_cast<std::size_t>(workers.communicator->size()));
  for (int rank = 0; rank < workers.communicator->size(); ++rank) ranks.push_back(workers.range_of(rank));
  return ranks;
}

int num_shards(const WorkerGroup& workers, ShardOwners owners) {
  return owners == ShardOwners::kWorkers ? workers.num_workers : std::max(workers.num_servers, 1);
}

ShardRange shards_of(const WorkerGroup& workers, ShardOwners owners, int rank) {
  if (owners == ShardOwners::kWorkers) {
    const WorkerRange range = workers.range_of(rank);
    return {static_cast<std::size_t>(range.first_local_worker), static_cast<std::size_t>(range.num_local_workers)};
  }
  const int first_server = workers.num_servers == 0 ? 0 : workers.communicator->size() - workers.num_servers;
  const int server = rank - first_server;
  if (server < 0 || server >= num_shards(workers, owners)) return {};
  return {static_cast<std::size_t>(server), 1};
}

std::vector<ShardRange> shards_of_ranks(std::span<const WorkerRange> ranks, ShardOwners owners) {
  std::vector<ShardRange> shards;
  for (const WorkerRange& workers : ranks) {
    if (owners == ShardOwners::kWorkers) {
      shards.push_back(
          {static_cast<std::size_t>(workers.first_local_worker), static_cast<std::size_t>(workers.num_local_workers)});
    } else {
      shards.push_back(shards.empty() ? ShardRange{0, 1} : ShardRange{1, 0});
    }
  }
  return shards;
}

}  // namespace terngrad
