// Runs the training on a rank: on the chief, which reports and saves, or on another rank.
#pragma once

namespace terngrad {

class ProcessGroup;
struct RunStart;
struct StartedRun;
struct TrainOptions;
struct TrainSetup;

/// The end of a run without an error, on one rank.
struct RunEnd {
  bool is_early = false;  // true if it stopped before the last step; valid on the chief
  int signal = 0;         // signal that this rank received; 0 for none
};

/// Trains as the chief, which reports and saves.
RunEnd train_and_report(const TrainOptions& o, const TrainSetup& setup, const StartedRun& run, RunStart& start,
                        const ProcessGroup& processes);

/// Trains as another rank.
RunEnd train_along(const TrainOptions& o, const TrainSetup& setup, const ProcessGroup& processes);

/// Collective: the exit code of the run, equal on all ranks, even if only one received a signal. Unlike MPI_Finalize it
/// has a timeout, which names a rank that hangs, for instance in the last evaluation.
int agreed_exit_code(const RunEnd& ending, const ProcessGroup& processes);

}  // namespace terngrad
