// Declares the options of terngrad_train by group, with their needs, roles and identity.
#pragma once

namespace terngrad {

class OptionSet;
struct TrainOptions;

/// Declare the options of a group over `o`, whose values are the defaults. Needs and identity read `o` later, so `o`
/// must outlive `options`.
/// @{
void declare_run_options(OptionSet& options, TrainOptions& o);
void declare_model_options(OptionSet& options, TrainOptions& o);
void declare_worker_options(OptionSet& options, TrainOptions& o);
void declare_compression_options(OptionSet& options, TrainOptions& o);
void declare_report_options(OptionSet& options, TrainOptions& o);
/// @}

/// Declares options of the TernGrad authors' program that are refused here, with what to do instead.
void refuse_options_of_the_original(OptionSet& options);

}  // namespace terngrad
