// Creates the trainer of terngrad_train on GPUs.
#pragma once

#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include "compress/comm/communicator.h"
#include "trainers/options/train_devices.h"

namespace terngrad {

class Trainer;
struct GpuPeers;
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

/// Creates a trainer on the GPUs of `choice`: each of all processes' GPUs holds a contiguous range of all workers.
/// @param gpus             from connect_gpus
/// @param timeout_seconds  timeout of a burst of steps in which several GPUs wait for each other; 0: none
/// @throws UsageError for options that a component refuses, NotSupported for options that a GPU does not support
DeviceSetup make_device_setup(const TrainOptions& o, const TrainDevices& choice, const std::vector<GpuPeers>& gpus,
                              const TrainingData& data, const WorkerGroup& workers, const Schedule& schedule,
                              const TrainerOptions& options, double timeout_seconds);

}  // namespace terngrad
