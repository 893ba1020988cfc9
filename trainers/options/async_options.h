// Defaults and checks of the options for asynchronous training.
#pragma once

#include <string>

#include "trainers/options/train_options.h"

namespace terngrad {

class OptionSet;

/// Sets defaults for asynchronous training of options that the user did not set: --scaler_sharing none.
void apply_async_defaults(OptionSet& options, const TrainOptions& o);

/// Refuses scalers, codecs and downlinks that asynchronous training does not support.
/// @throws UsageError naming the options, their values and the accepted values
void check_async_options(const TrainOptions& o);

/// Adapts checked options to a launch of several processes: disables telemetry and histograms, because the gradients
/// are in other processes.
void apply_async_launch(TrainOptions& o);

/// Text of the settings that decide the result, for PushProtocol.
std::string async_settings(const TrainOptions& o);

/// Factor of every gradient: --async_scale, or 1 / --num_nodes.
float async_scale(const TrainOptions& o);

}  // namespace terngrad
