// Checks that the ranks of a run have equal options and programs.
#pragma once

#include <vector>

#include "trainers/checkpoint/run_identity.h"
#include "trainers/command_line/option_value.h"
#include "trainers/launch/process_group.h"

namespace terngrad {

/// Collective: throws on every rank unless all have the chief's option values, identity and program version, and the
/// same library and instructions for nets, on which bits depend. Options with OptionRole::kPlace (paths, threads) may
/// differ; the data may not, as far as data_fingerprint detects it.
/// @throws GroupError naming the first option or identity entry that differs, the ranks and both values
void require_same_on_all_ranks(const ProcessGroup& processes, const std::vector<OptionValue>& options,
                               const RecordedIdentity& identity);

}  // namespace terngrad
