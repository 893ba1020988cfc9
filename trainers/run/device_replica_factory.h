// Creates the replica of one GPU from the options of terngrad_train.
#pragma once

#include <memory>

#include "compress/comm/communicator.h"
#include "kernels/runtime/device.h"

namespace terngrad {

class Dataset;
class DeviceReplica;
struct GpuPeers;
struct TrainDevices;
struct TrainOptions;
struct TrainerOptions;

/// The place of a replica in a run.
struct ReplicaPlace {
  WorkerRange workers;
  WorkerRange of_process;  // workers of all GPUs of the process
  Device device;
  const GpuPeers& peers;
  double timeout_seconds = 0;  // timeout of a burst; 0: none
};

/// @throws UsageError for options that a component refuses, NotSupported for options that a GPU does not support
std::unique_ptr<DeviceReplica> make_device_replica(const TrainOptions& o, const TrainDevices& choice,
                                                   const ReplicaPlace& place,
                                                   const std::shared_ptr<const Dataset>& dataset,
                                                   const TrainerOptions& options);

}  // namespace terngrad
