// Checks combinations of terngrad_train's options about encoding and exchange of gradients.
#pragma once

#include <string>

namespace terngrad {

class CodecPlan;
class Layout;
class OptionSet;
struct TrainOptions;

/// Checks the specs of --codec and --codec_for, and options that set the same: --grad_bits and kTernaryKeyOptions.
/// @throws UsageError as check_train_options
void check_codec_options(const OptionSet& options, const TrainOptions& o);

/// Checks scalers, algorithms and downlinks against each other, after check_codec_options.
/// @throws UsageError as check_train_options
void check_compression_options(const OptionSet& options, const TrainOptions& o);

/// Checks the codec against the net's tensors. @throws UsageError if no tensor uses the requested codec
void check_codec_plan(const TrainOptions& o, const CodecPlan& plan);

/// Warning about error feedback with unbiased stochastic codes: their error can exceed the gradient, so the residual
/// can grow to many times the gradient. Empty if it does not apply.
std::string note_on_memory(const TrainOptions& o);

/// Warning about scalers that are always 0, and their codes with them: with --scaler original, the standard deviation
/// of a single element. Empty if no scaler of `layout` covers a single element.
std::string note_on_scalers(const TrainOptions& o, const Layout& layout);

}  // namespace terngrad
