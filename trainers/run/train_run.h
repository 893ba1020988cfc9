// train: a run of terngrad_train on the ranks that train.
#pragma once

#include <string>

#include "trainers/run/run_directory.h"

namespace terngrad {

class ProcessGroup;
struct TrainOptions;

/// Collective over the ranks that train: runs the training. @returns the exit code, equal on all ranks
/// @throws exceptions that command_main maps to an exit code
int train(const TrainOptions& o, RunDescription description, const ProcessGroup& processes);

/// Collective: trains three steps without a run directory, and measures the memory of each process.
/// @returns the table of --memory on the chief, an empty string elsewhere
std::string measure_memory(const TrainOptions& o, const ProcessGroup& processes);

}  // namespace terngrad
