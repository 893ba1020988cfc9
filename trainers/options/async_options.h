// The options of asynchronous training.
#pragma once

#include <string>

#include "trainers/options/train_options.h"

namespace terngrad {

class OptionSet;

/// Whether the options ask for it: --strategy async.
bool is_async(const TrainOptions& o);

/// Gives `o` what goes with it for what the user did not set: scalers of each worker's own.
void apply_async_defaults(OptionSet& options, const TrainOptions& o);

/// Checks what asynchronous training cannot do, and options that only it has.
/// @throws UsageError naming the options, their values and what would be accepted
void check_async_options(const OptionSet& options, const TrainOptions& o);

/// Fits the options to a launch of several processes: nothing is reported of the gradients of other processes.
/// @throws UsageError if the user set options that report of them
void apply_async_launch(const OptionSet& options, TrainOptions& o);

/// What decides the result besides what synchronous training has, as text.
std::string async_settings(const TrainOptions& o);

/// The scale of every gradient: --async_scale, or 1 / --num_nodes.
float async_scale(const TrainOptions& o);

}  // namespace terngrad
