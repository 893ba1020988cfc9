// The options of terngrad_train, group by group; each declaration has all that is known of its option.
#pragma once

namespace terngrad {

class OptionSet;
struct TrainOptions;

/// Declare the options of a group over `o`, which has the default of each. Needs and the identity read `o`, too, when
/// they are asked for: both outlive `options`.
/// @{
void declare_run_options(OptionSet& options, TrainOptions& o);
void declare_model_options(OptionSet& options, TrainOptions& o);
void declare_worker_options(OptionSet& options, TrainOptions& o);
void declare_compression_options(OptionSet& options, TrainOptions& o);
void declare_report_options(OptionSet& options, TrainOptions& o);
/// @}

/// Refuses options of the original that cannot be honoured here, with what to do instead.
void refuse_options_of_the_original(OptionSet& options);

}  // namespace terngrad
