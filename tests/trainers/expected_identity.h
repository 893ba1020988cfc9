// Converts a recorded run identity to an expected one.
#pragma once

#include "trainers/checkpoint/checkpoint.h"
#include "trainers/checkpoint/run_identity.h"

namespace terngrad::testing {

/// Expects an equal value for each recorded key.
inline RunIdentity expected_identity(const RecordedIdentity& recorded) {
  RunIdentity identity;
  for (const auto& [key, value] : recorded) {
    identity.push_back({.key = key, .value = value, .name = "--" + key});
  }
  return identity;
}

inline RunIdentity expected_identity(const CheckpointState& state) {
  return expected_identity(recorded_identity(state));
}

}  // namespace terngrad::testing
