// A run of terngrad_train on the ranks that train.
#pragma once

#include "trainers/run/run_directory.h"

namespace terngrad {

class ProcessGroup;
struct TrainOptions;

/// Trains, on every rank that does; a collective call. @returns the exit code, the same on all ranks
/// @throws what command_main maps to one
int train(const TrainOptions& o, RunDescription description, const ProcessGroup& processes);

}  // namespace terngrad
