#include "python/src/module.h"

#include "kernels/runtime/version.h"

NB_MODULE(_core, module) {
  module.doc() = "The library under the package terngrad. Use the package: names here may change.";
  module.attr("version") = terngrad::version();
  terngrad::python::bind_errors(module);
  terngrad::python::bind_codecs(module);
  terngrad::python::bind_analysis(module);
  terngrad::python::bind_exchange(module);
}
