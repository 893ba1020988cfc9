// Options that the ranks of a run must have in common.
#pragma once

#include <vector>

#include "trainers/checkpoint/run_identity.h"
#include "trainers/command_line/option_value.h"
#include "trainers/launch/process_group.h"

namespace terngrad {

/// Throws on every rank unless all have the chief's values, the same version of the program, and the same library and
/// instructions for nets, on which bits depend; a collective call. Options whose role is OptionRole::kPlace may differ:
/// where a rank reads and writes, and how many threads it has; what it read may not, as far as data_fingerprint sees.
/// @throws GroupError that names the first option or entry of the identity that differs, the ranks and both values
void require_same_on_all_ranks(const ProcessGroup& processes, const std::vector<OptionValue>& options,
                               const RecordedIdentity& identity);

}  // namespace terngrad
