#include "compress/transport/grouped_peers.h"

#include <set>
#include <utility>

#include "kernels/runtime/errors.h"

namespace terngrad {
namespace {

void require_groups(int num_workers, int workers_per_group, int num_ranks) {
  const std::string reason = groups_unsupported_reason(num_workers, workers_per_group, num_ranks);
  TERNGRAD_REQUIRE(reason.empty(), "[groups] ", workers_per_group, " workers per group: ", reason);
}

/// The groups of a rank as workers, if it has all workers of each.
WorkerRange whole_groups(const WorkerRange& workers, int workers_per_group) {
  return {.num_workers = workers.num_workers / workers_per_group,
          .first_local_worker = workers.first_local_worker / workers_per_group,
          .num_local_workers = workers.num_local_workers / workers_per_group};
}

std::vector<WorkerGroup> local_groups(const WorkerRange& groups, int workers_per_group,
                                      const std::shared_ptr<Communicator>& communicator) {
  return {static_cast<std::size_t>(groups.num_local_workers), {worker_range(workers_per_group, 0, 1), communicator}};
}

void send_heartbeats_while_waiting(Communicator& waiting, const std::weak_ptr<Communicator>& other) {
  waiting.while_waiting([other] {
    if (const auto communicator = other.lock()) communicator->send_heartbeat();
  });
}

}  // namespace

std::string groups_unsupported_reason(int num_workers, int workers_per_group, int num_ranks) {
  if (workers_per_group < 1 || num_workers % workers_per_group != 0) {
    return "it must divide the " + std::to_string(num_workers) + " workers";
  }
  const int num_groups = num_workers / workers_per_group;
  if (workers_per_group > 1 && num_groups == 1) {
    return "there must be two groups or more of the " + std::to_string(num_workers) + " workers";
  }
  if (num_groups % num_ranks == 0 || num_ranks % num_groups == 0 || workers_per_group == 1) return "";
  return std::to_string(num_ranks) + " ranks cannot share " + std::to_string(num_groups) +
         " groups evenly: one number must divide the other";
}

int workers_per_host(int num_workers, std::span<const std::string> host_of_rank) {
  const int num_ranks = static_cast<int>(host_of_rank.size());
  const std::set<std::string> hosts(host_of_rank.begin(), host_of_rank.end());
  const int num_hosts = static_cast<int>(hosts.size());
  if (num_hosts < 2 || num_ranks % num_hosts != 0 || num_workers % num_hosts != 0) return 1;
  const int ranks_per_host = num_ranks / num_hosts;
  for (int rank = 0; rank < num_ranks; ++rank) {
    const int first = rank - rank % ranks_per_host;
    if (host_of_rank[static_cast<std::size_t>(rank)] != host_of_rank[static_cast<std::size_t>(first)]) return 1;
  }
  return num_workers / num_hosts;
}

ExchangePeers grouped_peers(const WorkerGroup& workers, int workers_per_group) {
  Communicator& all = *workers.communicator;
  require_groups(workers.num_workers, workers_per_group, all.size());
  if (workers_per_group == 1) return workers;
  TERNGRAD_REQUIRE(workers.num_servers == 0, "[groups] of workers have no servers, got ", workers.num_servers);
  const int num_groups = workers.num_workers / workers_per_group;
  if (num_groups >= all.size()) {
    const WorkerRange groups = whole_groups(workers, workers_per_group);
    ExchangePeers peers(WorkerGroup{groups, workers.communicator});
    peers.members.groups = local_groups(groups, workers_per_group, make_self_communicator());
    return peers;
  }
  all.barrier();  // has a timeout, unlike a split
  const int ranks_per_group = all.size() / num_groups;
  const int group = all.rank() / ranks_per_group;
  std::shared_ptr<Communicator> inside = all.split(group);
  std::shared_ptr<Communicator> among_first = all.split(inside->rank() == 0 ? 0 : 1);
  // A rank that waits in one of the two groups is waited for in the other.
  send_heartbeats_while_waiting(*inside, among_first);
  send_heartbeats_while_waiting(*among_first, inside);
  WorkerGroup groups{worker_range(num_groups, group, num_groups), std::move(among_first)};
  if (inside->rank() != 0) {
    groups.num_local_workers = 0;
    groups.communicator = nullptr;
  }
  ExchangePeers peers(std::move(groups));
  peers.members.groups = {{worker_range(workers_per_group, inside->rank(), ranks_per_group), std::move(inside)}};
  return peers;
}

ExchangePeers grouped_peers(const WorkerRange& workers, int workers_per_group,
                            std::shared_ptr<DeviceCommunicator> communicator) {
  require_groups(workers.num_workers, workers_per_group, communicator->size());
  if (workers_per_group == 1) return {workers, std::move(communicator)};
  const int num_groups = workers.num_workers / workers_per_group;
  if (num_groups >= communicator->size()) {
    const WorkerRange groups = whole_groups(workers, workers_per_group);
    ExchangePeers peers(groups, std::move(communicator));
    peers.members = {local_groups(groups, workers_per_group, nullptr), make_self_device_communicator()};
    return peers;
  }
  const int ranks_per_group = communicator->size() / num_groups;
  std::vector<int> group_of;
  std::vector<int> is_first;
  for (int rank = 0; rank < communicator->size(); ++rank) {
    group_of.push_back(rank / ranks_per_group);
    is_first.push_back(rank % ranks_per_group == 0 ? 0 : 1);
  }
  std::shared_ptr<DeviceCommunicator> inside = communicator->split(group_of);
  std::shared_ptr<DeviceCommunicator> among_first = communicator->split(is_first);
  WorkerRange groups = worker_range(num_groups, group_of[static_cast<std::size_t>(communicator->rank())], num_groups);
  if (inside->rank() != 0) {
    groups.num_local_workers = 0;
    among_first = nullptr;
  }
  ExchangePeers peers(groups, std::move(among_first));
  peers.members = {{{worker_range(workers_per_group, inside->rank(), ranks_per_group), nullptr}}, inside};
  return peers;
}

}  // namespace terngrad
