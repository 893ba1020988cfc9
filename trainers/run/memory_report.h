// The resident memory of a run's first steps, for --memory.
#pragma once

#include <span>
#include <string>

#include "trainers/run/memory_limit.h"

namespace terngrad {

/// Resident bytes of a process: at its start, and added by each stage.
struct MemoryStages {
  double program = 0;
  double data = 0;   // opening the training set
  double setup = 0;  // test set, net, optimizer, workers
  double steps = 0;  // first steps: messages, batches, scratch memory
  double peak = 0;   // maximum over the whole process
};

/// Current resident bytes of this process. @throws Error if /proc/self/statm cannot be read
double resident_bytes();

/// A table in MB (10^6 bytes): a line per process, their sum, and the limit of one process.
std::string memory_table(std::span<const MemoryStages> of_processes, const MemoryLimit& limit);

}  // namespace terngrad
