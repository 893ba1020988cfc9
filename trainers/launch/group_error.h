// GroupError: what one rank of a launch could not do, on all of them.
#pragma once

#include <string>

#include "kernels/runtime/errors.h"

namespace terngrad {

/// Thrown on every rank where one or more could not do a step of the start that all of them do
/// (ProcessGroup::run_collective). Only the chief's is to be printed.
class GroupError : public Error {
 public:
  GroupError(const std::string& message, int exit_code, bool is_chief)
      : Error(message), exit_code_(exit_code), is_chief_(is_chief) {}
  int exit_code() const { return exit_code_; }
  bool is_chief() const { return is_chief_; }

 private:
  int exit_code_;
  bool is_chief_;
};

}  // namespace terngrad
