// Checks combinations of terngrad_train's options.
#pragma once

#include "trainers/command_line/option_set.h"
#include "trainers/options/train_options.h"

namespace terngrad {

/// Checks the options' needs (OptionSet::require_needs) and refuses contradictions. Call it after apply_launch.
/// @throws UsageError naming the options, their values and the accepted values
void check_train_options(const OptionSet& options, const TrainOptions& o);

}  // namespace terngrad
