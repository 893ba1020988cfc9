#include "python/src/module.h"

#include <cstdlib>

#include "kernels/runtime/version.h"
#include "python/src/calls.h"

NB_MODULE(_core, module) {
  module.doc() = "The library under the package terngrad. Use the package: names here may change.";
  module.attr("version") = terngrad::version();
  // Exchanges held by daemon threads at exit are not leaks. Tests enable the warnings to find real ones.
  nanobind::set_leak_warnings(std::getenv("TERNGRAD_LEAK_WARNINGS") != nullptr);
  module.def("wait_for_calls", &terngrad::python::wait_for_calls, nanobind::arg("seconds"));
  terngrad::python::bind_errors(module);
  terngrad::python::bind_codecs(module);
  terngrad::python::bind_analysis(module);
  terngrad::python::bind_exchange(module);
}
