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
  bool has_parameters = true;            // the process holds the run's parameters, their averages and what is applied
  int num_slots = 0;                     // of the optimizer, each as long as the parameters
  std::string optimizer = "";            // its name, for messages
  bool has_replicas = false;             // each worker has parameters of its own
  std::int64_t slices_at_once = 0;       // workers whose activations are kept in host memory side by side
  int batches_at_once = 0;               // prepared batches
  std::string data = "";                 // the set's name and folder, for messages
  int memory_buffers = 0;  // of each worker, of what it keeps from step to step and encodes (compress/memory)
};

/// One part of the sum.
struct MemoryPart {
  double bytes = 0;
  std::string what;   // in a message, e.g. "the gradients of 8 workers"
  std::string lower;  // what to lower for less of it
};

/// Parts that every such run allocates and fills, none of 0 bytes: a lower bound, so that a run that fits is never
/// refused. Messages, data sets, evaluations, the program and its libraries, and scratch memory of layers and codecs come
/// on top.
std::vector<MemoryPart> estimate_memory(const NetPlan& plan, const MemoryUse& use);

/// @throws UsageError unless the parts together fit: the sum, what there is, every part that matters and what to lower
/// for the largest
void require_memory(const std::vector<MemoryPart>& parts, const MemoryLimit& limit);

}  // namespace terngrad
