// Garbage collector slots of the exchange classes.
#pragma once

#include <nanobind/nanobind.h>

namespace terngrad::python {

/// Lets Python's garbage collector free reference cycles between an exchange and its communicator.
template <class Exchange>
struct GcSlots {
  static int traverse(PyObject* self, visitproc visit, void* arg) {
    Py_VISIT(Py_TYPE(self));
    if (!nanobind::inst_ready(self)) return 0;
    PyObject* communicator = nanobind::inst_ptr<Exchange>(self)->communicator().ptr();
    Py_VISIT(communicator);
    return 0;
  }
  static int clear(PyObject* self) {
    if (!nanobind::inst_ready(self)) return 0;
    nanobind::inst_ptr<Exchange>(self)->communicator().reset();
    return 0;
  }
  static inline PyType_Slot slots[] = {
      {Py_tp_traverse, reinterpret_cast<void*>(traverse)}, {Py_tp_clear, reinterpret_cast<void*>(clear)}, {0, nullptr}};
};

}  // namespace terngrad::python
