// Measures the time to compute gradients.
#pragma once

#include "nets/net.h"

namespace terngrad {

/// Median seconds of the forward and backward passes of one step for a process's workers, on random images: without
/// reading images, exchange and update. Measures `repetitions` steps after one warm-up step.
/// @param net      computes on the CPU
/// @param options  options of the net
/// @throws InvalidArgument for repetitions below 1
double probe_compute(Net& net, const NetOptions& options, int repetitions);

}  // namespace terngrad
