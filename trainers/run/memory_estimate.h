// memory_estimate: what a training run needs of host memory at least, before any of it is allocated.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "nets/net_plan.h"
#include "trainers/run/memory_limit.h"

namespace terngrad {

/// What decides how much memory a process needs.
struct MemoryUse {
  std::int64_t num_workers = 1;          // of this process
  std::int64_t examples_per_worker = 1;  // of a step
  int buffers_per_worker = 1;            // as long as the parameters, in host memory: the gradient, a replica
  int shared_buffers = 1;                // as long as the parameters: these themselves, averages, the mean, slots
  std::int64_t slices_at_once = 0;       // workers whose activations are kept in host memory side by side
  int batches_at_once = 0;               // prepared batches
  std::string data = "";                 // the set's name and folder, for messages
};

/// One part of the sum.
struct MemoryPart {
  double bytes = 0;
  std::string what;   // e.g. "gradients of 8 workers"
  std::string lower;  // what to lower for less of it
};

/// Parts that every such run allocates and fills: a lower bound, so that a run that fits is never refused. Messages,
/// scratch memory of layers, moving statistics and the data set come on top.
std::vector<MemoryPart> estimate_memory(const NetPlan& plan, const MemoryUse& use);

/// @throws UsageError unless the parts together fit: the sum, what there is, every part that matters and what to lower
/// for the largest
void require_memory(const std::vector<MemoryPart>& parts, const MemoryLimit& limit);

}  // namespace terngrad
