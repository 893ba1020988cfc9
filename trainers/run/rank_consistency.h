// Options that the ranks of a run must have in common.
#pragma once

#include <vector>

#include "trainers/checkpoint/run_identity.h"
#include "trainers/launch/process_group.h"
#include "trainers/options/option_set.h"

namespace terngrad {

/// Throws on every rank unless all have the chief's values, the same version of the program, and the same library and
/// instructions for nets, on which bits depend; a collective call. Where a rank reads its data, how many threads it has
/// and where it writes may differ (data_dir, threads, num_preprocess_threads, train_dir, config); what it read may not,
/// as far as data_fingerprint sees.
/// @throws GroupError that names the first option or entry of the identity that differs, the ranks and both values
void require_same_on_all_ranks(const ProcessGroup& processes, const std::vector<OptionValue>& options,
                               const RunIdentity& identity);

}  // namespace terngrad
