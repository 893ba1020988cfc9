// Connects the GPUs and the groups of workers of a run.
#pragma once

#include <memory>
#include <string>
#include <vector>

namespace terngrad {

class Communicator;
struct ExchangePeers;
struct GpuPeers;
struct TrainDevices;
struct TrainOptions;

/// Beginning of the message with which a process ends that has waited too long for GPUs of others.
std::string failing_process(const Communicator& processes);

/// Collective over the processes: connects the GPUs of `choice` with each other and with those of the other processes,
/// by NCCL if there are several.
/// @param timeout_seconds  timeout after which a process that waits for other GPUs ends; 0: none
/// @returns the connections of each GPU of `choice`
/// @throws UsageError in a build without NCCL, CommunicationError
std::shared_ptr<const std::vector<GpuPeers>> connect_gpus(const TrainOptions& o, const TrainDevices& choice,
                                                          Communicator& processes, double timeout_seconds);

/// Collective over the processes: connects groups of workers that exchange in host memory; null without
/// --workers_per_group. @throws CommunicationError
std::shared_ptr<const ExchangePeers> connect_groups(const TrainOptions& o,
                                                    const std::shared_ptr<Communicator>& processes);

}  // namespace terngrad
