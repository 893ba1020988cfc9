// Runs code with each SIMD target that this machine has, and leaves the best one behind.
#pragma once

#include <string>
#include <utility>

#include "kernels/runtime/cpu/simd.h"

namespace terngrad::testing {

/// Restores the best target however a test ends.
class ForcedTarget {
 public:
  explicit ForcedTarget(const std::string& name) { cpu::force_simd_target(name); }
  ~ForcedTarget() { cpu::force_simd_target(""); }
  ForcedTarget(const ForcedTarget&) = delete;
  ForcedTarget& operator=(const ForcedTarget&) = delete;
};

/// Calls body(name of target) with each target in force.
template <class Body>
void for_each_target(const Body& body) {
  for (const cpu::SimdTarget& target : cpu::simd_targets()) {
    const ForcedTarget forced(target.name);
    body(target.name);
  }
}

}  // namespace terngrad::testing
