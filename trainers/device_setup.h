// What terngrad_train is put together from on GPUs.
#pragma once

#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include "datasets/dataset.h"
#include "trainers/device_choice.h"
#include "trainers/train_options.h"
#include "trainers/trainer.h"

namespace terngrad {

/// A trainer on GPUs, and what goes with it.
struct DeviceSetup {
  std::unique_ptr<Trainer> trainer;
  std::uint64_t plan_fingerprint = 0;  // of the exchange, as on the CPU
  std::vector<std::string> notes;      // for people: what was found out about the GPUs
};

/// Makes a trainer of the GPUs of `choice`: each holds a contiguous range of the workers.
/// @throws UsageError for options that a part refuses, NotSupported where a GPU cannot do what they ask for
DeviceSetup make_device_setup(const TrainOptions& o, const DeviceChoice& choice,
                              const std::shared_ptr<const Dataset>& dataset, const WorkerGroup& workers,
                              const Schedule& schedule, const TrainerOptions& options);

}  // namespace terngrad
