// Starts or resumes a run of terngrad_train.
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

/// The state that a run starts from, on every rank.
struct RunStart {
  std::optional<Checkpoint> checkpoint;  // the run's own with --resume, another run's with --init_from
  std::uint64_t first_step = 0;
};

/// A started or resumed run, on the chief.
struct StartedRun {
  RunDirectory directory;
  std::optional<std::uint64_t> evaluated = {};  // first_step, if the metrics have its evaluation
  std::string max_steps_note = {};              // see check_max_steps
  std::string device_note = {};                 // previous device of the run, if it differs
};

/// Collective: starts or resumes the run on every rank, and restores the trainers. @returns the run on the chief,
/// nullopt elsewhere
/// @throws UsageError for a checkpoint of another run, DataError for a damaged one
std::optional<StartedRun> start_run(const TrainOptions& o, const RunDescription& description, const TrainSetup& setup,
                                    const ProcessGroup& processes, RunStart& start);

}  // namespace terngrad
