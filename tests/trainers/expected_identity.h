// An identity as a run expects it, from what another one recorded.
#pragma once

#include "trainers/checkpoint/checkpoint.h"
#include "trainers/checkpoint/run_identity.h"

namespace terngrad::testing {

/// Each entry under the name of its key, to be equal.
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
