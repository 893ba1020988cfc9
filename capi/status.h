// Conversion of exceptions to tg_status, used by every function of the C API.
#pragma once

#include <string>

#include "capi/terngrad.h"
#include "kernels/runtime/errors.h"

namespace terngrad::capi {

/// Thrown when a callback of the caller failed.
class CallbackFailed : public Error {
 public:
  using Error::Error;
};

/// Call in a catch block: returns the status of the current exception and stores its text for tg_last_error.
tg_status keep_error() noexcept;

/// Runs the body of an API function and turns exceptions into a status.
template <class Body>
tg_status guard(const Body& body) noexcept {
  try {
    body();
    return TG_OK;
  } catch (...) {
    return keep_error();
  }
}

/// Dereferences a pointer argument. @throws InvalidArgument naming it if it is NULL
template <class T>
T& deref(T* pointer, const char* name) {
  TERNGRAD_REQUIRE(pointer != nullptr, name, " is NULL");
  return *pointer;
}

/// Checks an integer argument. @throws InvalidArgument naming it unless low <= number <= high
template <class Number>
void require_range(const char* name, Number number, Number low, Number high) {
  TERNGRAD_REQUIRE(number >= low && number <= high, name, " must be from ", low, " to ", high, ", got ", number);
}

}  // namespace terngrad::capi
