// A DeviceCommunicator whose operations are methods of an object of Python.
#pragma once

#include <nanobind/nanobind.h>

#include <memory>

#include "compress/comm/device_communicator.h"
#include "kernels/runtime/device.h"

namespace terngrad::python {

/// @param object  has rank, size and the methods of terngrad.DeviceCommunicator; an exception of theirs passes through.
/// Outlives the communicator's use. @param device  whose memory it moves
std::shared_ptr<DeviceCommunicator> make_device_communicator(nanobind::handle object, const Device& device);

}  // namespace terngrad::python
