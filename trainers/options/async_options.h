// The options of asynchronous training.
#pragma once

#include <string>

#include "trainers/options/train_options.h"

namespace terngrad {

class OptionSet;

/// Gives `o` what goes with it for what the user did not set: scalers of each worker's own.
void apply_async_defaults(OptionSet& options, const TrainOptions& o);

/// Checks scalers and codecs that asynchronous training cannot do.
/// @throws UsageError naming the options, their values and what would be accepted
void check_async_options(const TrainOptions& o);

/// Fits checked options to a launch of several processes: nothing is reported of the gradients of other processes.
void apply_async_launch(TrainOptions& o);

/// What decides the result besides what synchronous training has, as text.
std::string async_settings(const TrainOptions& o);

/// The scale of every gradient: --async_scale, or 1 / --num_nodes.
float async_scale(const TrainOptions& o);

}  // namespace terngrad
