#include "compress/exchange/shard_owners.h"

#include <algorithm>

namespace terngrad {

std::string to_string(ShareOwners owners) { return owners == ShareOwners::kWorkers ? "workers" : "servers"; }

int num_shares(const WorkerGroup& workers, ShareOwners owners) {
  return owners == ShareOwners::kWorkers ? workers.num_workers : std::max(workers.num_servers, 1);
}

ShareRange shares_of(const WorkerGroup& workers, ShareOwners owners, int rank) {
  if (owners == ShareOwners::kWorkers) {
    const WorkerRange range = workers.range_of(rank);
    return {static_cast<std::size_t>(range.first_local_worker), static_cast<std::size_t>(range.num_local_workers)};
  }
  const int first_server = workers.num_servers == 0 ? 0 : workers.communicator->size() - workers.num_servers;
  const int server = rank - first_server;
  if (server < 0 || server >= num_shares(workers, owners)) return {};
  return {static_cast<std::size_t>(server), 1};
}

std::vector<ShareRange> shares_of_ranks(std::span<const WorkerRange> ranks, ShareOwners owners) {
  std::vector<ShareRange> shares;
  for (const WorkerRange& workers : ranks) {
    if (owners == ShareOwners::kWorkers) {
      shares.push_back(
          {static_cast<std::size_t>(workers.first_local_worker), static_cast<std::size_t>(workers.num_local_workers)});
    } else {
      shares.push_back(shares.empty() ? ShareRange{0, 1} : ShareRange{1, 0});
    }
  }
  return shares;
}

}  // namespace terngrad
