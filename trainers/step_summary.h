// StepSummary: what the ranks of a run tell each other about a step.
#pragma once

#include <cstdint>
#include <span>

#include "compress/communicator.h"
#include "compress/gradient_exchange.h"
#include "nets/net.h"
#include "trainers/gradient_transform.h"

namespace terngrad {

/// A step as all ranks together see it.
struct StepSummary {
  double loss = 0;                   // mean over all workers of the mean cross-entropy of their slices
  std::int64_t num_correct = 0;      // of all workers
  TransformCounts counts;            // of all workers
  LegBytes scalers, gradient, mean;  // of all workers, as ExchangeReport has them for those of a process
  bool stop = false;                 // a rank asked to stop
};

/// Gives every rank the same summary of a step, whose numbers are the same bits for any split of the workers over
/// ranks: losses are added in order of workers.
/// @param losses  of the local workers
/// @param counts  of the local workers together
/// @param report  of this rank's exchange
/// @param stop    whether this rank asks to stop
/// @throws CommunicationError if another rank tells of other workers than it has
StepSummary summarize_step(const WorkerGroup& workers, std::span<const WorkerLoss> losses,
                           const TransformCounts& counts, const ExchangeReport& report, bool stop);

}  // namespace terngrad
