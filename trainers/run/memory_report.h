// What a run of terngrad_train allocates in host memory, as --memory prints it.
#pragma once

#include <span>
#include <string>
#include <vector>

#include "trainers/run/memory_estimate.h"
#include "trainers/run/memory_limit.h"

namespace terngrad {

class ProcessGroup;
struct TrainOptions;

/// The parts of this process, by options and data: gradients are not computed, and nothing is written. Opens the data
/// sets, for their shape and size. Waits for no other rank.
/// @throws UsageError, DataError for options and files that a run would be refused for
std::vector<MemoryPart> memory_of_process(const TrainOptions& o, const ProcessGroup& processes);

/// A table with a line for each part that any process has and a column for each group of equal neighbours among the
/// processes, in MB (10^6 bytes), and the total beside what there is.
/// @param limit  of one process
std::string memory_table(std::span<const std::vector<MemoryPart>> of_processes, const MemoryLimit& limit);

/// The table of all processes on the chief, nothing on others; a collective call.
/// @throws as memory_of_process
std::string memory_report(const TrainOptions& o, const ProcessGroup& processes);

}  // namespace terngrad
