// Errors as statuses: what every function of the C API is wrapped in.
#pragma once

#include <string>

#include "capi/terngrad.h"
#include "kernels/runtime/errors.h"

namespace terngrad::capi {

/// Thrown where a callback of the caller failed.
class CallbackFailed : public Error {
 public:
  using Error::Error;
};

/// The status of the exception that is being handled, whose text becomes tg_last_error.
tg_status keep_error() noexcept;

/// Runs a function's body. No exception leaves it.
template <class Body>
tg_status guard(const Body& body) noexcept {
  try {
    body();
    return TG_OK;
  } catch (...) {
    return keep_error();
  }
}

/// What an argument points to. @throws InvalidArgument naming it if it is NULL
template <class T>
T& deref(T* pointer, const char* name) {
  TERNGRAD_REQUIRE(pointer != nullptr, name, " is NULL");
  return *pointer;
}

/// Numbers of things that arguments say. @throws InvalidArgument naming it unless low <= number <= high
template <class Number>
void require_range(const char* name, Number number, Number low, Number high) {
  TERNGRAD_REQUIRE(number >= low && number <= high, name, " must be from ", low, " to ", high, ", got ", number);
}

}  // namespace terngrad::capi
