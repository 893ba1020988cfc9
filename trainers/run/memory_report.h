// The resident memory of a run's first steps, as --memory prints it.
#pragma once

#include <span>
#include <string>

#include "trainers/run/memory_limit.h"

namespace terngrad {

/// Bytes of a process that are resident: at its start, and that each stage added.
struct MemoryStages {
  double program = 0;
  double data = 0;   // the training set was opened
  double setup = 0;  // test set, net, optimizer, workers
  double steps = 0;  // the first steps: messages, batches, scratch memory
  double peak = 0;   // of the whole process
};

/// @throws Error where /proc/self/statm cannot be read
double resident_bytes();
/// The most that this process has had.
double peak_resident_bytes();

/// A line for each process, in MB (10^6 bytes), their sum, and the limit of one.
std::string memory_table(std::span<const MemoryStages> of_processes, const MemoryLimit& limit);

}  // namespace terngrad
