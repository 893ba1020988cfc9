// ShareOwners: who aggregates what of the workers' gradients.
#pragma once

#include <cstddef>
#include <span>
#include <string>

#include "compress/communicator.h"
#include "kernels/slice.h"

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
};

/// The shares that a rank owns.
ShareRange shares_of(const WorkerGroup& workers, ShareOwners owners, int rank);

/// What an owner makes of its share of the mean before it travels to the workers: the update of a parameter server that
/// is asked for parameters instead of gradients.
class ShareUpdate {
 public:
  virtual ~ShareUpdate() = default;
  /// Called once for each share of this rank, in each step that is not dropped.
  /// @param share   its number, and `slices` what it is made of, in order
  /// @param values  in: the mean of these slices, finite; out: what travels in its place. Other slices hold anything
  virtual void update(std::size_t share, std::span<const Slice> slices, const TensorTable& values,
                      std::uint64_t step) = 0;
};

}  // namespace terngrad
