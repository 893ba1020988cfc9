// StepSummary: what the ranks of a run tell each other about steps.
#pragma once

#include <cstdint>
#include <span>
#include <string>
#include <vector>

#include "compress/comm/communicator.h"
#include "compress/exchange/gradient_exchange.h"
#include "nets/net.h"
#include "trainers/optim/transform_counts.h"

namespace terngrad {

/// A step as one rank saw it.
struct LocalStep {
  std::vector<WorkerLoss> losses;  // of the local workers
  TransformCounts counts;          // of the local workers together
  ExchangeBytes bytes;             // of this rank's exchange
};

/// A step as all ranks together see it.
struct StepSummary {
  double loss = 0;               // mean over all workers of the mean cross-entropy of their slices
  std::int64_t num_correct = 0;  // of all workers
  TransformCounts counts;        // of all workers
  ExchangeBytes bytes;           // of all workers and servers
  bool stop = false;             // a rank asked to stop
};

/// Gives every rank the same summary of each step, whose numbers are the same bits for any split of the workers over
/// ranks: losses are added in order of workers. One message between two ranks, however many steps there are.
/// @param steps  that all ranks have done
/// @param stop   whether this rank asks to stop
/// @throws CommunicationError if another rank tells of other steps or workers, or that its steps failed
std::vector<StepSummary> summarize_steps(const WorkerGroup& workers, std::span<const LocalStep> steps, bool stop);

/// The same for one step. @param report  of this rank's exchange
StepSummary summarize_step(const WorkerGroup& workers, std::span<const WorkerLoss> losses,
                           const TransformCounts& counts, const ExchangeReport& report, bool stop);

/// Takes the place of summarize_steps on a rank whose steps failed because it waited for other ranks until the timeout:
/// a rank that does not come here either is the one that was waited for.
/// @param why  what this rank met
/// @throws CommunicationError, always: with the words of the communicator about a rank that does not come, or else with
/// those of every rank whose steps failed
[[noreturn]] void report_failed_steps(const WorkerGroup& workers, const std::string& why);

}  // namespace terngrad
