// Groups of workers that exchange as one worker each: a hierarchical all-reduce in two levels.
#pragma once

#include <memory>
#include <span>
#include <string>

#include "compress/comm/communicator.h"
#include "compress/comm/device_communicator.h"
#include "compress/transport/exchange_peers.h"

namespace terngrad {

/// Reason why N workers on this many ranks cannot form groups, with what would do; empty if they can. A group is G
/// consecutive workers: G divides N, there are at least two groups, and no rank has parts of two groups.
std::string groups_unsupported_reason(int num_workers, int workers_per_group, int num_ranks);

/// Number of workers per host, if each host has as many, by consecutive ranks, and there are two hosts or more; else 1.
/// @param host_of_rank  host names; the workers are spread over the ranks by worker_range
int workers_per_host(int num_workers, std::span<const std::string> host_of_rank);

/// Number of the first group whose first worker is this one or a later one.
constexpr int first_group_from(int worker, int workers_per_group) {
  return (worker + workers_per_group - 1) / workers_per_group;
}

/// Peers of an exchange in two levels. Within each group of G consecutive workers, say those of one host, the mean of
/// the gradients is taken in float32, in the order of aggregate_tree; groups then exchange their means in encoded form,
/// each as one worker; the first rank of a group does that, and sends the result to the group's others. The result has
/// the same bits for any number of ranks. Collective; returns the plain peers for G = 1.
/// @throws InvalidArgument with groups_unsupported_reason, and for a group with servers; CommunicationError
ExchangePeers grouped_peers(const WorkerGroup& workers, int workers_per_group);
/// The same for gradients in device memory; each rank calls it in a thread of its own.
/// @throws NotSupported for a group on several ranks of a communicator that cannot be split
ExchangePeers grouped_peers(const WorkerRange& workers, int workers_per_group,
                            std::shared_ptr<DeviceCommunicator> communicator);

}  // namespace terngrad
