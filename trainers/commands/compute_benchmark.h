// Measures what computing gradients costs a process.
#pragma once

#include "nets/net.h"

namespace terngrad {

/// Seconds that the forward and backward passes of one step take for a process's workers, on images of random numbers:
/// without reading images, without exchange and update. The median of that many steps, after one that does not count.
/// @param net      computes on the CPU
/// @param options  that it was made with
/// @throws InvalidArgument for repetitions below 1
double probe_compute(Net& net, const NetOptions& options, int repetitions);

}  // namespace terngrad
