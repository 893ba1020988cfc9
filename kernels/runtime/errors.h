// The exceptions of the project, by cause. Libraries throw; only `main` turns an exception into an exit code.
#pragma once

#include <sstream>
#include <stdexcept>
#include <string>

namespace terngrad {

/// Base of every exception thrown on purpose by this project.
class Error : public std::runtime_error {
 public:
  using std::runtime_error::runtime_error;
};

/// Thrown when a caller's argument breaks a documented precondition.
class InvalidArgument : public Error {
 public:
  using Error::Error;
};

/// Thrown when an option of a command, or a combination of options, cannot be honoured. Commands exit with code 2.
class UsageError : public Error {
 public:
  using Error::Error;
};

/// Thrown when a file is missing, truncated, damaged or not what it should be, or cannot be written.
class DataError : public Error {
 public:
  using Error::Error;
};

/// Thrown when a message between workers or processes is damaged, foreign or does not arrive.
class CommunicationError : public Error {
 public:
  using Error::Error;
};

/// Thrown when a gradient holds NaN or infinity and the run was asked to stop on it.
class NonFiniteError : public Error {
 public:
  using Error::Error;
};

/// Thrown when this build or this machine lacks what was asked for (a device, a library).
class NotSupported : public Error {
 public:
  using Error::Error;
};

/// Thrown when a call to a device's runtime fails: out of device memory, a bad launch, an error of an earlier kernel.
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

/// Throws `Exception` with a message streamed together from the remaining arguments.
#define TERNGRAD_THROW(Exception, ...) ::terngrad::detail::throw_error<Exception>(__VA_ARGS__)

/// Throws `InvalidArgument` unless `condition` holds. Messages say who, what was expected and what came:
///   TERNGRAD_REQUIRE(bytes >= need, "[ternarize] output too small: need ", need, " bytes, have ", bytes);
#define TERNGRAD_REQUIRE(condition, ...)                                        \
  do {                                                                          \
    if (!(condition)) TERNGRAD_THROW(::terngrad::InvalidArgument, __VA_ARGS__); \
  } while (false)
