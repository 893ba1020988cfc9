// Run identities of command lines, and checks whether one may resume the run of another.
#pragma once

#include <string>
#include <vector>

#include "kernels/runtime/errors.h"
#include "tests/trainers/checked_options.h"
#include "trainers/checkpoint/run_identity.h"
#include "trainers/options/async_options.h"

namespace terngrad::testing {

inline RunIdentity identity_of(const std::vector<std::string>& arguments) {
  TrainOptions o;
  OptionSet options("test");
  parse(options, o, arguments);
  apply_async_defaults(options, o);
  check_train_options(options, o);
  return options.identity();
}

/// Value of an identity entry; "(none)" if it is missing.
inline std::string identity_entry(const std::vector<std::string>& arguments, const std::string& key) {
  const RecordedIdentity identity = recorded_identity(identity_of(arguments));
  const auto entry = identity.find(key);
  return entry == identity.end() ? "(none)" : entry->second;
}

/// Error message when `arguments` resume a run of `of_run`; empty if they may.
inline std::string resume_refusal(const std::vector<std::string>& arguments, const std::vector<std::string>& of_run) {
  try {
    check_same_run(identity_of(arguments), recorded_identity(identity_of(of_run)), "there");
  } catch (const UsageError& error) {
    return error.what();
  }
  return "";
}

}  // namespace terngrad::testing
