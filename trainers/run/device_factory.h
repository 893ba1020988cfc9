// What terngrad_train is put together from on GPUs.
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

/// A trainer on GPUs, and what goes with it.
struct DeviceSetup {
  std::unique_ptr<Trainer> trainer;
  std::uint64_t plan_fingerprint = 0;  // of the exchange, as on the CPU
  std::vector<std::string> notes;      // human-readable: what was found out about the GPUs
};

/// Connects the GPUs of `choice` with each other and with those of the other processes, by NCCL where there are
/// several; a collective call of the processes.
/// @param timeout_seconds  after which a process that still waits for the others' GPUs ends; 0: never
/// @returns for each GPU of `choice` its place among all of them, which are in the order of their processes
/// @throws UsageError in a build without NCCL, CommunicationError
std::vector<std::shared_ptr<DeviceCommunicator>> connect_gpus(const TrainDevices& choice, Communicator& processes,
                                                              double timeout_seconds);

/// Makes a trainer of the GPUs of `choice`: each of all GPUs holds a contiguous range of all workers.
/// @param communicators    of connect_gpus
/// @param timeout_seconds  for which one of several GPUs, of this process or others, waits for the others in a burst of
/// steps; 0: for ever
/// @throws UsageError for options that a part refuses, NotSupported where a GPU cannot do what they ask for
DeviceSetup make_device_setup(const TrainOptions& o, const TrainDevices& choice,
                              std::span<const std::shared_ptr<DeviceCommunicator>> communicators,
                              const TrainingData& data, const WorkerGroup& workers, const Schedule& schedule,
                              const TrainerOptions& options, double timeout_seconds);

}  // namespace terngrad
