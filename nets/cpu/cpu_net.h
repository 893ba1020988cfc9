// CPU backend of the nets: executes a net plan with oneDNN.
#pragma once

#include <memory>

#include "nets/net.h"
#include "nets/net_plan.h"

namespace terngrad::cpu {

/// Makes a net that runs on the CPU. Primitives are made for one worker's slice and `threads_per_worker` threads, so a
/// gradient does not depend on the number of workers (contract B3).
/// @throws InvalidArgument for options below 1 or threads_per_worker above num_threads; NotSupported or InvalidArgument
///         if oneDNN cannot run a layer
std::unique_ptr<Net> make_net(NetPlan plan, const NetOptions& options);

}  // namespace terngrad::cpu
