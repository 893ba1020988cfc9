// ShareOwners: who aggregates what of the workers' gradients.
#pragma once

#include <cstddef>
#include <span>
#include <string>
#include <vector>

#include "compress/comm/communicator.h"

namespace terngrad {

/// Who owns the shares that scatter_reduce cuts a gradient into.
enum class ShareOwners {
  kWorkers,  // worker j owns share j of N
  kServers,  // server j of S owns share j: a parameter server. The servers are the last ranks of the group
             // (WorkerGroup::num_servers); where it has none, rank 0 is the only one, beside its workers
};

/// "workers", "servers".
std::string to_string(ShareOwners owners);

/// How many shares there are.
int num_shares(const WorkerGroup& workers, ShareOwners owners);

/// Consecutive shares.
struct ShareRange {
  std::size_t first = 0;
  std::size_t count = 0;
  std::size_t end() const { return first + count; }
  bool has(std::size_t share) const { return share >= first && share < end(); }
};

/// The shares that a rank owns.
ShareRange shares_of(const WorkerGroup& workers, ShareOwners owners, int rank);

/// The shares of each of several ranks that all have workers: of these, or, of servers, the only share for the first
/// rank. @param ranks  the workers of each
std::vector<ShareRange> shares_of_ranks(std::span<const WorkerRange> ranks, ShareOwners owners);

}  // namespace terngrad
