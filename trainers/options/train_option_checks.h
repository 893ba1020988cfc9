// Which combinations of terngrad_train's options there are.
#pragma once

#include "trainers/options/option_set.h"
#include "trainers/options/train_options.h"

namespace terngrad {

/// Checks combinations: what contradicts itself, and options that the chosen mode would not use.
/// @throws UsageError naming the options, their values and what would be accepted
void check_train_options(const OptionSet& options, const TrainOptions& o);

/// Checks what only runs of several processes, or only runs of one, can do.
/// @throws UsageError as check_train_options
void check_launch(const OptionSet& options, const TrainOptions& o, int num_processes);

}  // namespace terngrad
