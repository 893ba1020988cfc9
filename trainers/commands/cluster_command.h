// terngrad_advise --cluster as a function.
#pragma once

#include <string>

namespace terngrad {

/// Prints what training takes on the cluster that a file describes (trainers/commands/cluster_advice.h).
/// @param json  file for all numbers, empty for none
/// @returns the exit code
/// @throws UsageError that names the file, and the key if it is one of the file's, for a file that cannot be read, is
/// none, or lacks what is needed; DataError if `json` cannot be written
int advise_on_cluster(const std::string& file, const std::string& json);

}  // namespace terngrad
