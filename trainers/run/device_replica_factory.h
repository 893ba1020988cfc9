// The part of a run on GPUs that one of them holds, by the options of terngrad_train.
#pragma once

#include <memory>

#include "compress/comm/communicator.h"
#include "kernels/runtime/device.h"

namespace terngrad {

class Dataset;
class DeviceCommunicator;
class DeviceReplica;
struct TrainDevices;
struct TrainOptions;
struct TrainerOptions;

/// Where a replica is.
struct ReplicaPlace {
  WorkerRange workers;
  WorkerRange of_process;  // of all of its GPUs
  Device device;
  std::shared_ptr<DeviceCommunicator> communicator;
  double timeout_seconds = 0;  // of a burst
};

/// @throws UsageError for options that a part refuses, NotSupported where a GPU cannot do what they ask for
std::unique_ptr<DeviceReplica> make_device_replica(const TrainOptions& o, const TrainDevices& choice,
                                                   const ReplicaPlace& place,
                                                   const std::shared_ptr<const Dataset>& dataset,
                                                   const TrainerOptions& options);

}  // namespace terngrad
