// What a checkpoint of a run must agree in to be resumed by it.
#pragma once

#include <cstdint>

#include "trainers/checkpoint/checkpoint.h"

namespace terngrad {

struct DeviceChoice;
struct TrainingData;
struct TrainOptions;

/// The state of a run at step 0: every option and number that decides the bits of its steps.
/// @param plan_fingerprint  of the exchange's codec plan
CheckpointState initial_state(const TrainOptions& o, const DeviceChoice& devices, const TrainingData& data,
                              std::uint64_t plan_fingerprint);

}  // namespace terngrad
