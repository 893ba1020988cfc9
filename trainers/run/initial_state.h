// The identity of a run, and its state at step 0.
#pragma once

#include <cstdint>

#include "trainers/checkpoint/checkpoint.h"
#include "trainers/checkpoint/run_identity.h"

namespace terngrad {

struct TrainingData;
struct TrainOptions;

/// Everything that decides the bits of a run's steps: the options' entries (OptionSet::identity), the data's
/// fingerprint and the exchange.
/// @param plan_fingerprint  fingerprint of the exchange's codec plan
RunIdentity run_identity(const TrainOptions& o, const TrainingData& data, std::uint64_t plan_fingerprint);

/// The state of the run at step 0.
CheckpointState initial_state(const RunIdentity& identity);

}  // namespace terngrad
