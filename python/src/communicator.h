// A Communicator whose operations are methods of an object of Python.
#pragma once

#include <nanobind/nanobind.h>

#include <memory>

#include "compress/comm/communicator.h"

namespace terngrad::python {

/// @param object  has rank, size and the methods of terngrad.Communicator; an exception of theirs passes through.
/// Outlives the communicator's use
std::shared_ptr<Communicator> make_communicator(nanobind::handle object);

}  // namespace terngrad::python
