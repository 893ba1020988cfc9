// GroupError: an error of some ranks, thrown on all ranks.
#pragma once

#include <string>

#include "kernels/runtime/errors.h"

namespace terngrad {

/// Thrown on every rank if a collective step failed on any (ProcessGroup::run_collective). Only the chief prints it.
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
