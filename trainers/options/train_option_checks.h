// Which combinations of terngrad_train's options there are.
#pragma once

#include "trainers/command_line/option_set.h"
#include "trainers/options/train_options.h"

namespace terngrad {

/// Checks combinations, once apply_launch has told of the launch: what the options need (OptionSet::require_needs), and
/// what contradicts itself.
/// @throws UsageError naming the options, their values and what would be accepted
void check_train_options(const OptionSet& options, const TrainOptions& o);

}  // namespace terngrad
