// The parts of the extension module terngrad._core.
#pragma once

#include <nanobind/nanobind.h>

namespace terngrad::python {

/// Python exception classes for terngrad's exceptions.
void bind_errors(nanobind::module_& module);
/// Codecs, plans, encoding and decoding of messages.
void bind_codecs(nanobind::module_& module);
/// Statistics, ternarize, telemetry.
void bind_analysis(nanobind::module_& module);
/// Layouts and exchanges.
void bind_exchange(nanobind::module_& module);

}  // namespace terngrad::python
