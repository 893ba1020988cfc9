// Where a run of terngrad_train starts: at its first step, or where its checkpoint is.
#pragma once

#include <cstdint>
#include <optional>
#include <string>

#include "trainers/checkpoint/checkpoint.h"
#include "trainers/run/run_directory.h"

namespace terngrad {

class ProcessGroup;
struct TrainOptions;
struct TrainSetup;

/// What a run continues from, on every rank.
struct RunStart {
  std::optional<Checkpoint> checkpoint;  // of the run itself with --resume, of another with --init_from
  std::uint64_t first_step = 0;
};

/// A run that is about to train, as the chief keeps it: at its start, or where it was resumed.
struct StartedRun {
  RunDirectory directory;
  std::optional<std::uint64_t> evaluated = {};  // the step it continues after, if the metrics have its evaluation
  std::string max_steps_note = {};              // as check_max_steps
  std::string device_note = {};                 // where the run was before, if that is another device
};

/// Brings every rank to where the run starts or is resumed. @returns the chief's run, nothing on other ranks
/// @throws UsageError for a checkpoint of another run, DataError for one that is damaged
std::optional<StartedRun> start_run(const TrainOptions& o, const RunDescription& description, const TrainSetup& setup,
                                    const ProcessGroup& processes, RunStart& start);

}  // namespace terngrad
