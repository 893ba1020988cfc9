// Python exception classes for terngrad's exceptions: each derives from terngrad.Error, a RuntimeError.
#include "kernels/runtime/errors.h"

#include <string>

#include "python/src/module.h"

namespace terngrad::python {
namespace {

namespace nb = nanobind;

/// The exception classes, which are never freed.
struct ErrorClasses {
  PyObject* error = nullptr;
  PyObject* invalid_argument = nullptr;
  PyObject* data_error = nullptr;
  PyObject* communication_error = nullptr;
  PyObject* nonfinite_error = nullptr;
  PyObject* not_supported = nullptr;
  PyObject* device_error = nullptr;
} classes;

PyObject* make_class(nb::module_& module, const char* name, const char* doc, const nb::object& bases) {
  const std::string full_name = std::string("terngrad.") + name;
  PyObject* made = PyErr_NewExceptionWithDoc(full_name.c_str(), doc, bases.ptr(), nullptr);
  if (made == nullptr) nb::raise_python_error();
  module.attr(name) = nb::borrow(made);
  return made;
}

void translate(const std::exception_ptr& thrown, void*) {
  try {
    std::rethrow_exception(thrown);
  } catch (const InvalidArgument& error) {
    PyErr_SetString(classes.invalid_argument, error.what());
  } catch (const DataError& error) {
    PyErr_SetString(classes.data_error, error.what());
  } catch (const CommunicationError& error) {
    PyErr_SetString(classes.communication_error, error.what());
  } catch (const NonFiniteError& error) {
    PyErr_SetString(classes.nonfinite_error, error.what());
  } catch (const NotSupported& error) {
    PyErr_SetString(classes.not_supported, error.what());
  } catch (const DeviceError& error) {
    PyErr_SetString(classes.device_error, error.what());
  } catch (const Error& error) {
    PyErr_SetString(classes.error, error.what());
  }
}

}  // namespace

void bind_errors(nb::module_& module) {
  const auto runtime_error = nb::borrow(PyExc_RuntimeError);
  classes.error = make_class(module, "Error", "Base of what terngrad raises on purpose.", runtime_error);
  const auto error = nb::borrow(classes.error);
  classes.invalid_argument =
      make_class(module, "InvalidArgument", "An argument breaks what its function asks for. Also a ValueError.",
                 nb::make_tuple(error, nb::borrow(PyExc_ValueError)));
  classes.data_error = make_class(module, "DataError", "A file is missing, damaged or not what it should be.", error);
  classes.communication_error = make_class(
      module, "CommunicationError", "A message is damaged, foreign, or does not arrive: with the rank's name.", error);
  classes.nonfinite_error = make_class(
      module, "NonFiniteError", "A gradient holds NaN or infinity, and the exchange was asked to stop on it.", error);
  classes.not_supported = make_class(module, "NotSupported", "This build or machine lacks what was asked for.", error);
  classes.device_error = make_class(module, "DeviceError", "A call to a device's runtime failed.", error);
  nb::register_exception_translator(translate);
}

}  // namespace terngrad::python
