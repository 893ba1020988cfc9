// The recipe that a data set brings, and some nets on it: defaults of the options.
#pragma once

namespace terngrad {

class OptionSet;
struct TrainOptions;

/// Gives `o` the defaults of its data set, or of its net on it, for what the user did not set.
void apply_dataset_defaults(OptionSet& options, const TrainOptions& o);

}  // namespace terngrad
