// What a checkpoint of a run must agree in to be resumed by it.
#pragma once

#include <cstdint>

#include "trainers/checkpoint/checkpoint.h"
#include "trainers/checkpoint/run_identity.h"

namespace terngrad {

struct TrainingData;
struct TrainOptions;

/// What decides the bits of a run's steps: what its options declare (OptionSet::identity), its data and its exchange.
/// @param plan_fingerprint  of the exchange's codec plan
RunIdentity run_identity(const TrainOptions& o, const TrainingData& data, std::uint64_t plan_fingerprint);

/// The state of the run at step 0.
CheckpointState initial_state(const RunIdentity& identity);

}  // namespace terngrad
