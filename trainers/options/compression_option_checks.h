// Which combinations there are of the options of terngrad_train that say how gradients are encoded and sent.
#pragma once

#include <string>

namespace terngrad {

class CodecPlan;
class Layout;
class OptionSet;
struct TrainOptions;

/// Checks the specs of --codec and --codec_for, and options that say the same: --grad_bits, and those that are long
/// names of ternary's keys. @throws UsageError as check_train_options
void check_codec_options(const OptionSet& options, const TrainOptions& o);

/// Checks scalers, algorithms and downlinks against each other, once check_codec_options has passed; both are parts of
/// check_train_options.
/// @throws UsageError as check_train_options
void check_compression_options(const OptionSet& options, const TrainOptions& o);

/// Checks the codec against the tensors of the net. @throws UsageError if no tensor uses the codec that was asked for
void check_codec_plan(const TrainOptions& o, const CodecPlan& plan);

/// What a run should be told of error feedback beside codes that are drawn without bias: their error can be larger than
/// the gradient, and what is kept then grows to many times that. Empty where it is not so.
std::string note_on_memory(const TrainOptions& o);

/// What a run should be told of scalers that are always 0, and codes with them: with --scaler original the standard
/// deviation of one element is 0. Empty if no scaler of `layout` has a single element.
std::string note_on_scalers(const TrainOptions& o, const Layout& layout);

}  // namespace terngrad
