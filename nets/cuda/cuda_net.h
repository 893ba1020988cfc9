// CUDA backend of the nets: executes a net plan with cuDNN, cuBLASLt and kernels of our own.
#pragma once

#include <memory>
#include <string>

#include "nets/device_net.h"
#include "nets/net_plan.h"

namespace terngrad::cuda {

/// As device_nets_unavailable_reason.
std::string nets_unavailable_reason();

/// As device_net_libraries_unavailable_reason.
std::string net_libraries_unavailable_reason();

/// As device_net_libraries.
std::string net_libraries();

/// As device_net_libraries_of_build.
std::string net_libraries_of_build();

/// make_device_net for a plan.
std::unique_ptr<DeviceNet> make_net(NetPlan plan, const NetOptions& options, MathMode math, const Stream& stream);

}  // namespace terngrad::cuda
