// Training recipes of data sets, and of some nets on them: defaults of options.
#pragma once

namespace terngrad {

class OptionSet;
struct TrainOptions;

/// Sets the defaults of the data set, or of the net on it, for options that the user did not set.
void apply_dataset_defaults(OptionSet& options, const TrainOptions& o);

}  // namespace terngrad
