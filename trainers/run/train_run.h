// A run of terngrad_train on the ranks that train.
#pragma once

#include <string>

#include "trainers/run/run_directory.h"

namespace terngrad {

class ProcessGroup;
struct TrainOptions;

/// Trains, on every rank that does; a collective call. @returns the exit code, the same on all ranks
/// @throws what command_main maps to one
int train(const TrainOptions& o, RunDescription description, const ProcessGroup& processes);

/// Trains three steps without a run directory, and tells what memory each process had then; a collective call.
/// @returns the table of --memory on the chief, nothing on others
std::string measure_memory(const TrainOptions& o, const ProcessGroup& processes);

}  // namespace terngrad
