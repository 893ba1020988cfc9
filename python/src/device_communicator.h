// A DeviceCommunicator whose operations are methods of a Python object.
#pragma once

#include <nanobind/nanobind.h>

#include <memory>

#include "compress/comm/device_communicator.h"
#include "kernels/runtime/device.h"

namespace terngrad::python {

/// @param object  has rank, size and the methods of terngrad.DeviceCommunicator, whose exceptions propagate. Must
/// outlive the communicator. @param device  device of all buffers
std::shared_ptr<DeviceCommunicator> make_device_communicator(nanobind::handle object, const Device& device);

}  // namespace terngrad::python
