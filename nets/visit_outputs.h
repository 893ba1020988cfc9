// visit_outputs: every layer's output in a pass of evaluation, for nets on any device.
#pragma once

#include <span>

#include "nets/net.h"
#include "nets/net_plan.h"

namespace terngrad {

/// Implements Net::visit_outputs with the CPU's layers, in one thread, for equal bits on every machine's number of
/// threads. Makes the layers anew in each call.
/// @throws InvalidArgument for spans of other sizes, naming the argument
void visit_outputs(const NetPlan& plan, std::span<const float> parameters, std::span<const float> state,
                   std::span<const float> images, int num_examples, const OutputVisitor& visit);

}  // namespace terngrad
