// A Communicator whose operations are methods of a Python object.
#pragma once

#include <nanobind/nanobind.h>

#include <memory>

#include "compress/comm/communicator.h"

namespace terngrad::python {

/// @param object  has rank, size and the methods of terngrad.Communicator, whose exceptions propagate. Must outlive the
/// communicator
std::shared_ptr<Communicator> make_communicator(nanobind::handle object);

}  // namespace terngrad::python
