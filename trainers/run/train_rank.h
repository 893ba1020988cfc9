// A rank's part of a run of terngrad_train: as the chief, which reports and saves, or as another.
#pragma once

namespace terngrad {

class ProcessGroup;
struct RunStart;
struct StartedRun;
struct TrainOptions;
struct TrainSetup;

/// How a rank has ended its part of a run, in good order.
struct RunEnd {
  bool is_early = false;  // as the chief sees it: others may not know
  int signal = 0;         // that came to this rank, 0 for none
};

/// Trains as the chief, which reports and saves.
RunEnd train_and_report(const TrainOptions& o, const TrainSetup& setup, const StartedRun& run, RunStart& start,
                        const ProcessGroup& processes);

/// Trains as another rank.
RunEnd train_along(const TrainOptions& o, const TrainSetup& setup, const ProcessGroup& processes);

/// The exit code of the run, the same on all ranks, whichever of them a signal came to; a collective call. The end of
/// MPI has no deadline: here a rank that hangs, in the last evaluation say, is named.
int agreed_exit_code(const RunEnd& ending, const ProcessGroup& processes);

}  // namespace terngrad
