// Creates the trainer of terngrad_train on GPUs.
#pragma once

#include <cstdint>
#include <memory>
#include <span>
#include <string>
#include <vector>

#include "compress/comm/communicator.h"
#include "trainers/options/train_devices.h"

namespace terngrad {

class DeviceCommunicator;
class Trainer;
struct Schedule;
struct TrainOptions;
struct TrainerOptions;
struct TrainingData;

/// A trainer on GPUs with additional facts.
struct DeviceSetup {
  std::unique_ptr<Trainer> trainer;
  std::uint64_t plan_fingerprint = 0;  // fingerprint of the exchange's codec plan, equal to that on the CPU
  std::vector<std::string> notes;      // human-readable remarks about the GPUs
};

/// Collective over the processes: connects the GPUs of `choice` with each other and with those of the other processes,
/// by NCCL if there are several.
/// @param timeout_seconds  timeout after which a process that waits for other GPUs ends; 0: none
/// @returns the communicator of each GPU of `choice`; ranks are all GPUs in the order of their processes
/// @throws UsageError in a build without NCCL, CommunicationError
std::vector<std::shared_ptr<DeviceCommunicator>> connect_gpus(const TrainDevices& choice, Communicator& processes,
                                                              double timeout_seconds);

/// Creates a trainer on the GPUs of `choice`: each of all processes' GPUs holds a contiguous range of all workers.
/// @param communicators    from connect_gpus
/// @param timeout_seconds  timeout of a burst of steps in which several GPUs wait for each other; 0: none
/// @throws UsageError for options that a component refuses, NotSupported for options that a GPU does not support
DeviceSetup make_device_setup(const TrainOptions& o, const TrainDevices& choice,
                              std::span<const std::shared_ptr<DeviceCommunicator>> communicators,
                              const TrainingData& data, const WorkerGroup& workers, const Schedule& schedule,
                              const TrainerOptions& options, double timeout_seconds);

}  // namespace terngrad
