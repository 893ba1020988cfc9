// The nets' CPU backend: a net plan executed with oneDNN.
#pragma once

#include <memory>

#include "nets/net.h"
#include "nets/net_plan.h"

namespace terngrad::cpu {

/// Makes a net that runs on the CPU. Workers' slices are served one at a time by primitives made for one slice and
/// `threads_per_worker` threads, so a gradient does not depend on how many workers there are (contract B3).
/// @throws InvalidArgument for options below 1 or threads_per_worker above num_threads; NotSupported or InvalidArgument
///         if oneDNN cannot run a layer
std::unique_ptr<Net> make_net(NetPlan plan, const NetOptions& options);

}  // namespace terngrad::cpu
