// The exceptions of the project, by cause. Libraries throw; only `main` turns an exception into an exit code.
#pragma once

#include <sstream>
#include <stdexcept>
#include <string>

namespace terngrad {

/// Base class of all exceptions that this project throws.
class Error : public std::runtime_error {
 public:
  using std::runtime_error::runtime_error;
};

/// Thrown when a caller's argument breaks a documented precondition.
class InvalidArgument : public Error {
 public:
  using Error::Error;
};

/// Thrown when a command's option, or a combination of options, cannot be honored. Commands exit with code 2.
class UsageError : public Error {
 public:
  using Error::Error;
};

/// Thrown when a file is missing, truncated, corrupt or of the wrong kind, or cannot be written.
class DataError : public Error {
 public:
  using Error::Error;
};

/// Thrown when a message between workers or processes is corrupt, unexpected or does not arrive.
class CommunicationError : public Error {
 public:
  using Error::Error;
};

/// Thrown when a gradient contains NaN or infinity and the run was configured to stop in that case.
class NonFiniteError : public Error {
 public:
  using Error::Error;
};

/// Thrown when this build or machine lacks a requested device or library.
class NotSupported : public Error {
 public:
  using Error::Error;
};

/// Thrown when a call to a device's runtime fails: out of memory, invalid launch, error of an earlier kernel.
class DeviceError : public Error {
 public:
  using Error::Error;
};

namespace detail {
template <class Exception, class... Parts>
[[noreturn]] void throw_error(const Parts&... parts) {
  std::ostringstream text;
  (text << ... << parts);
  throw Exception(text.str());
}
}  // namespace detail

}  // namespace terngrad

/// Throws `Exception` with the concatenation of the remaining arguments as message.
#define TERNGRAD_THROW(Exception, ...) ::terngrad::detail::throw_error<Exception>(__VA_ARGS__)

/// Throws `InvalidArgument` unless `condition` holds. Messages name the caller, the expectation and the actual value:
///   TERNGRAD_REQUIRE(bytes >= need, "[ternarize] output too small: need ", need, " bytes, have ", bytes);
#define TERNGRAD_REQUIRE(condition, ...)                                        \
  do {                                                                          \
    if (!(condition)) TERNGRAD_THROW(::terngrad::InvalidArgument, __VA_ARGS__); \
  } while (false)
