// StepSummary: losses, counts and bytes of steps, combined over ranks.
#pragma once

#include <cstdint>
#include <span>
#include <string>
#include <vector>

#include "compress/comm/communicator.h"
#include "compress/route/exchange_report.h"
#include "nets/net.h"
#include "trainers/optim/transform_counts.h"

namespace terngrad {

/// Numbers of a step on one rank.
struct LocalStep {
  std::vector<WorkerLoss> losses;  // per local worker
  TransformCounts counts;          // sum over local workers
  ExchangeBytes bytes;             // bytes of this rank's exchange
};

/// Numbers of a step over all ranks.
struct StepSummary {
  double loss = 0;               // mean over all workers of the mean cross-entropy of their batch slices
  std::int64_t num_correct = 0;  // total of all workers
  TransformCounts counts;        // total of all workers
  ExchangeBytes bytes;           // total of all workers and servers
  bool stop = false;             // a rank asked to stop
};

/// Collective: returns the same summary of each step on every rank. Numbers are bit-identical for any split of the
/// workers over ranks, as losses are added in the order of workers. One message per pair of ranks for all steps.
/// @param steps  the same steps on all ranks
/// @param stop   true if this rank asks to stop
/// @throws CommunicationError if a rank reports other steps or workers, or that its steps failed
std::vector<StepSummary> summarize_steps(const WorkerGroup& workers, std::span<const LocalStep> steps, bool stop);

/// The same for one step. @param report  report of this rank's exchange
StepSummary summarize_step(const WorkerGroup& workers, std::span<const WorkerLoss> losses,
                           const TransformCounts& counts, const ExchangeReport& report, bool stop);

/// Replaces summarize_steps on a rank whose steps failed by a timeout. It identifies the lost rank: the one that takes
/// no part in this collective call either.
/// @param why  this rank's error
/// @throws CommunicationError always: the communicator's error that names a missing rank, or else the errors of all
/// ranks whose steps failed
[[noreturn]] void report_failed_steps(const WorkerGroup& workers, const std::string& why);

}  // namespace terngrad
