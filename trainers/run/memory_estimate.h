// memory_estimate: a lower bound of a run's host memory, computed before it is allocated.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "nets/net_plan.h"
#include "trainers/run/memory_limit.h"

namespace terngrad {

/// Numbers that determine the memory of a process.
struct MemoryUse {
  std::int64_t num_workers = 1;          // workers of this process
  std::int64_t examples_per_worker = 1;  // examples per worker and step
  bool has_parameters = true;            // true if it holds parameters, averages and the applied gradient
  int num_slots = 0;                     // optimizer slots, each of the size of the parameters
  std::string optimizer = "";            // name of the optimizer, for messages
  bool has_replicas = false;             // true if each worker has its own parameters
  std::int64_t slices_at_once = 0;       // number of workers whose activations are in host memory at the same time
  int batches_at_once = 0;               // number of prepared batches
  std::string data = "";                 // name and folder of the data set, for messages
  std::int64_t num_senders = 1;          // those of the workers, or of their groups, that encode here
  std::int64_t num_groups = 0;           // groups of the workers; 0: each exchanges its own gradient
  double memory_bytes = 0;               // of each worker's memory, per parameter (compress/memory/memory_options.h)
  double shared_memory_bytes = 0;        // of what its workers keep together, per parameter
};

/// One summand of the memory.
struct MemoryPart {
  double bytes = 0;
  std::string what;   // text for messages, e.g. "the gradients of 8 workers"
  std::string lower;  // options to lower to reduce it
};

/// The parts, except for those of 0 bytes, that every such run allocates and fills: a lower bound, so that a run that
/// fits is never refused. Not included: messages, data sets, evaluations, the program and its libraries, and scratch
/// memory of layers and codecs.
std::vector<MemoryPart> estimate_memory(const NetPlan& plan, const MemoryUse& use);

/// Throws unless the sum of the parts fits.
/// @throws UsageError with the sum, the limit, all significant parts and the options to lower for the largest part
void require_memory(const std::vector<MemoryPart>& parts, const MemoryLimit& limit);

}  // namespace terngrad
